// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Sweeps: one deck under many settings, as a TOML file describes them (doc/sweeps.md).
#pragma once

#include "config/config.hpp"
#include "config/toml_reader.hpp"

#include <optional>
#include <string>
#include <vector>

namespace minisp::config {

/// One deck of the sweep.
struct SweepCase {
  std::string name;                       ///< a file name: letters, digits and . _ + = -
  std::vector<Entry> settings{};          ///< what it sets beside the deck, one entry a key
  std::optional<std::size_t> baseline{};  ///< index of the case that it is compared with
  Config config{};                        ///< output.file is set a round
};

struct SweepConfig {
  std::string file, text;   ///< as given, and its whole text
  std::string deck_file{};  ///< the deck that every case starts from
  std::string folder{};     ///< where results go; relative to the working directory
  std::int64_t rounds = 3;
  std::int64_t ranks = 0;  ///< what the sweep is made for; 0: any number
  std::vector<SweepCase> cases{};
};

/// Reads the sweep in `file`: the cross product of its axes, the last varying fastest, or its list of cases.
/// `overrides` are sweep.* keys, and keys of decks that all cases take. Every case's deck is parsed and
/// checked for what needs no rank count. Throws Error (bad_input) "FILE:LINE: KEY: ..." at the first fault.
SweepConfig load_sweep(const std::string& file, const std::vector<std::string>& overrides = {});

/// The same for a sweep that is text already; `file` stands for it in messages and says where decks lie.
SweepConfig parse_sweep(const std::string& text, const std::string& file,
                        const std::vector<std::string>& overrides = {});

/// The case's configuration in one round, which writes to `output_file`.
Config config_of(const SweepCase& sweep_case, const std::string& output_file);

}  // namespace minisp::config
