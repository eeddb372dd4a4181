// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Text that others wrote, in files and in messages: it may never end, be a million levels deep, or one name
// of a megabyte.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <istream>
#include <string>

namespace minisp::config {

/// The value as JSON, the start of it where it is long, "..." for what is nested deep.
std::string shown(const nlohmann::json& value);

/// The text, or its first part and "..." where it has more than some 200 bytes.
std::string shortened(const std::string& text);

/// Everything up to the end of `in`. Throws Error (bad_input) naming `file` beyond `largest` bytes: not every
/// path ends.
std::string read_up_to(std::istream& in, std::int64_t largest, const std::string& file,
                       const std::string& remedy);

}  // namespace minisp::config
