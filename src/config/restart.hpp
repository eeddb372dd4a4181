// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Which settings of a saved training may change when it goes on (doc/checkpoints.md).
#pragma once

#include "config/config.hpp"

#include <string>
#include <utility>
#include <vector>

namespace minisp::config {

/// (key, value as TOML) pairs: what a checkpoint keeps of the configuration. All settings but
/// those that may change at will, and "model.family", which no key sets.
std::vector<std::pair<std::string, std::string>> saved_settings(const Config& config);

/// Holds `config` against the settings in a checkpoint. Throws Error (bad_input) at the first key that must
/// be what it was: file, key, both values, remedy. Returns a sentence for each that changes what is computed
/// but may do so (learning rate, where the data lies).
std::vector<std::string> check_restart(const Config& config,
                                       const std::vector<std::pair<std::string, std::string>>& saved,
                                       const std::string& file);

}  // namespace minisp::config
