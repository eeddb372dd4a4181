// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The commands of the program. Each runs on every rank, prints on rank 0, and returns the exit code; errors
// are thrown, agreed() where every rank throws the same.
#pragma once

#include "comm/communicator.hpp"
#include "util/error.hpp"

#include <optional>
#include <string>
#include <vector>

namespace minisp::bench {

/// `minisp run DECK [key=value ...] [--restart FOLDER] [--time-limit TIME]`
struct RunOptions {
  std::string deck;
  std::vector<std::string> overrides;
  bool dry_run = false;                   ///< check the deck, print the plan and the memory a rank, and stop
  std::string restart;                    ///< checkpoint, or the folder whose newest one it is; empty: none
  std::optional<double> time_limit;       ///< seconds after which to save and stop
  std::vector<std::string> command_line;  ///< for provenance
};
ExitCode run_command(const comm::Communicator& world, const RunOptions& options);

/// `minisp verify DECK [key=value ...]`: the deck's decomposition against one rank: loss, every gradient, and
/// the weights after `optimizer_steps` steps.
struct VerifyOptions {
  std::string deck;
  std::string reference;  ///< folder laid out as tests/reference/; empty: verify the deck
  std::vector<std::string> overrides;
};
ExitCode verify_command(const comm::Communicator& world, const VerifyOptions& options);

/// `minisp info`: build, devices, BLAS kernel, presets.
ExitCode info_command(const comm::Communicator& world);

}  // namespace minisp::bench
