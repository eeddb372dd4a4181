// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Architectures known by name: models as published, and the variants that the BASP paper's Table II states.
#pragma once

#include "config/architecture.hpp"

#include <string>
#include <vector>

namespace minisp::config {

/// All names, published models first: "llama-3.2-1b", ..., "gpt2", then "llama-3.2-1b-basp-table2", ...
const std::vector<std::string>& preset_names();

/// The architecture of that name. Throws Error (bad_input) with the nearest name when there is none.
Architecture preset(const std::string& name);

/// One line on what the preset is, for `minisp info`.
std::string preset_description(const std::string& name);

}  // namespace minisp::config
