// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The commands of the program. Each runs on every rank, prints on rank 0, and returns the exit code; errors
// are thrown, agreed() where every rank throws the same.
#pragma once

#include "comm/communicator.hpp"
#include "config/config.hpp"
#include "io/result.hpp"
#include "util/error.hpp"

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace minisp::bench {

/// `minisp run DECK [key=value ...] [--restart FOLDER] [--time-limit TIME]`
struct RunOptions {
  std::string deck{};
  std::vector<std::string> overrides{};
  bool dry_run = false;                ///< check the deck, print the plan and the memory a rank, and stop
  std::string restart{};               ///< checkpoint, or the folder whose newest one it is; empty: none
  std::optional<double> time_limit{};  ///< seconds after which to save and stop
  std::vector<std::string> command_line{};  ///< for provenance

  // Of a run inside a larger command:
  bool quiet = false;                               ///< print nothing
  std::vector<io::CheckRow>* self_check = nullptr;  ///< what it found before; filled where it is empty
  io::RunResult* result = nullptr;                  ///< takes what was measured
};
ExitCode run_command(const comm::Communicator& world, const RunOptions& options);

/// `minisp sweep SWEEP [key=value ...]`: many decks in turn, several rounds, and their ratios
/// (doc/sweeps.md).
struct SweepOptions {
  std::string sweep;
  std::vector<std::string> overrides;
  std::string only;      ///< run only the cases whose names contain this, and their baselines
  bool dry_run = false;  ///< check every case, print its plan and memory, and stop
  Index ranks = 0;       ///< dry run: for this many; 0: as the sweep says, or as the job has
  std::vector<std::string> command_line;  ///< for provenance
};
ExitCode sweep_command(const comm::Communicator& world, const SweepOptions& options);

/// `minisp verify DECK [key=value ...]`: the deck's decomposition against one rank: loss, every gradient, and
/// the weights after `optimizer_steps` steps.
struct VerifyOptions {
  std::string deck;
  std::string reference;  ///< folder laid out as tests/reference/; empty: verify the deck
  std::vector<std::string> overrides;
};
ExitCode verify_command(const comm::Communicator& world, const VerifyOptions& options);

/// `minisp predict DECK|SWEEP --machine FILE`: what a step would take on a machine
/// (doc/performance_model.md).
struct PredictOptions {
  std::string input;  ///< deck or sweep
  std::string machine;
  std::vector<std::string> overrides;
  Index ranks = 0;           ///< 0: the sweep's, or those of the job
  Index ranks_per_node = 0;  ///< 0: the machine's
  bool strided = false;      ///< ranks are dealt out to the nodes in turn
  double link_factor = 1;    ///< bandwidth off the node, times the machine's
  std::string lengths;       ///< file of sequence lengths, empty: all of train.sequence_length
  std::string csv;           ///< file to write, empty: none
  bool overwrite = false;    ///< replace it
  bool plans = false;        ///< every decomposition, best first
};
ExitCode predict_command(const PredictOptions& options, int job_ranks, std::ostream& out);

/// `minisp calibrate --output FILE`: measures what the performance model needs, and writes a machine file.
struct CalibrateOptions {
  std::string output;
  bool overwrite = false;
  std::string name;  ///< of the machine; empty: its processor's
  config::Precision precision = config::Precision::fp32;
  Index rounds = 3;    ///< of every step
  bool quick = false;  ///< small decks only
};
ExitCode calibrate_command(const comm::Communicator& world, const CalibrateOptions& options);

/// `minisp fit FIGURES.csv --machine START --output FILE`: the machine that explains published figures best.
struct FitOptions {
  std::string table;
  std::vector<std::string> figures;  ///< empty: all
  std::string machine, output;
  bool overwrite = false;
};
ExitCode fit_command(const FitOptions& options, std::ostream& out);

/// `minisp info`: build, devices, BLAS kernel, presets.
ExitCode info_command(const comm::Communicator& world);

}  // namespace minisp::bench
