// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/foreign_text.hpp"

#include "util/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace minisp::config {

namespace {

using nlohmann::json;

constexpr std::size_t longest = 200;
constexpr int deepest = 4;

/// The library's own dump() recurses as deep as the value goes, and a stack ends.
void append(const json& value, int level, std::string& text) {
  if (text.size() > longest) return;
  if (!value.is_structured()) {
    // A string is cut before it is escaped.
    text += value.is_string() ? json(shortened(value.get_ref<const std::string&>())).dump() : value.dump();
    return;
  }
  text += value.is_array() ? '[' : '{';
  bool first = true;
  if (level == deepest && !value.empty()) {
    text += "...";
  } else {
    for (const auto& item : value.items()) {
      if (!first) text += ", ";
      first = false;
      if (value.is_object()) text += json(shortened(item.key())).dump() + ": ";
      append(item.value(), level + 1, text);
      if (text.size() > longest) break;
    }
  }
  text += value.is_array() ? ']' : '}';
}

}  // namespace

std::string shown(const json& value) {
  std::string text;
  append(value, 0, text);
  return shortened(text);
}

std::string shortened(const std::string& text) {
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;  // inside a UTF-8 character
  return text.substr(0, end) + "...";
}

std::string read_up_to(std::istream& in, std::int64_t largest, const std::string& file,
                       const std::string& remedy) {
  std::string text;
  std::vector<char> part(1 << 16);
  while (in.read(part.data(), static_cast<std::streamsize>(part.size())), in.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > static_cast<std::size_t>(largest))
      throw input_error("has more than " + std::to_string(largest) + " bytes", file, remedy);
  }
  return text;
}

}  // namespace minisp::config
