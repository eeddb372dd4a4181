// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/toml_reader.hpp"

#include "util/error.hpp"

// Malformed decks trip assertions of the library's parser (3.3: a table header that ends in the middle) just
// before it reports the fault; without them it reports the fault in debug builds too.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <sstream>

namespace minisp::config {

namespace {

/// A key of n dots is n tables, one in the other, and the library takes them apart by recursion: the stack
/// ends at some ten thousand. Dots anywhere are counted, which is what a text of this size affords.
constexpr std::ptrdiff_t most_dots = 2000;

bool is_small(const std::string& text) {
  return static_cast<std::int64_t>(text.size()) <= largest_deck &&
         std::count(text.begin(), text.end(), '.') <= most_dots;
}

Value value_of(const toml::node& node) {
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  if (const auto* text = node.as_string()) return text->get();
  std::ostringstream type;
  type << node.type();
  return OtherValue{type.str()};
}

std::string line_of(const toml::node& node, const std::string& name) {
  return name + ":" + std::to_string(node.source().begin.line);
}

void flatten(const toml::table& table, const std::string& prefix, const std::string& name,
             std::vector<Entry>& entries) {
  for (const auto& [key, node] : table) {
    const std::string full = prefix + std::string(key.str());
    if (const auto* inner = node.as_table()) {
      entries.push_back({full, OtherValue{"table"}, line_of(node, name), true});
      flatten(*inner, full + ".", name, entries);
    } else {
      entries.push_back({full, value_of(node), line_of(node, name)});
    }
  }
}

/// The one value of "value = TEXT", nothing where that is no TOML or more than one value.
std::optional<Value> parse_value(const std::string& text) {
  if (text.find('\n') != std::string::npos || !is_small(text)) return std::nullopt;
  try {
    const toml::table table = toml::parse("value = " + text);
    return value_of(*table.get("value"));
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<Entry> read_toml(const std::string& text, const std::string& name) {
  if (!is_small(text))
    throw input_error(
        "has more than " + std::to_string(largest_deck) + " bytes or " + std::to_string(most_dots) + " dots",
        name, "A deck is a page of settings: take what else it holds out");
  try {
    std::vector<Entry> entries;
    flatten(toml::parse(text), "", name, entries);
    return entries;
  } catch (const toml::parse_error& error) {
    throw input_error("this is no valid TOML: " + std::string(error.description()),
                      name + ":" + std::to_string(error.source().begin.line),
                      "Mend the line; a deck has [table] headers, lines of key = value, and # comments");
  }
}

Entry read_override(const std::string& text, bool (*is_text)(const std::string& key)) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw input_error("'" + text + "' is not of the form key=value", "command line",
                      "Write for instance train.steps=20");
  const std::string key = text.substr(0, equals), raw = text.substr(equals + 1);
  std::optional<Value> value = parse_value(raw);
  if (!value || (is_text(key) && !std::holds_alternative<std::string>(*value))) value = raw;
  // A shell passes any bytes; what a run was asked for is kept as a deck, which is UTF-8.
  if (std::holds_alternative<std::string>(*value)) {
    const auto kept = parse_value(toml_quoted(std::get<std::string>(*value)));
    if (!kept || !std::holds_alternative<std::string>(*kept) ||
        std::get<std::string>(*kept) != std::get<std::string>(*value))
      throw input_error("the value is no UTF-8 text, or longer than a deck", "command line: " + key,
                        "Give text in UTF-8");
  }
  return {key, *value, "command line"};
}

std::string toml_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace minisp::config
