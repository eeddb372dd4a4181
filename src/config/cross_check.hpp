// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Checks of a configuration that look at more than one key and need no rank count.
#pragma once

#include "config/config.hpp"

#include <functional>
#include <string>

namespace minisp::config {

/// `base` is the preset's or the folder's architecture, `where` says where a key was set. Throws Error
/// (bad_input) at the first fault; adds to config.notes what is allowed but worth knowing.
void cross_check(Config& config, const Architecture& base,
                 const std::function<std::string(const std::string& key)>& where);

}  // namespace minisp::config
