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

Node tree_of(const toml::node& node, const std::string& key, const std::string& name) {
  Node tree{.key = key, .value = value_of(node), .where = line_of(node, name)};
  if (const auto* table = node.as_table()) {
    tree.kind = Node::Kind::table;
    for (const auto& [inner_key, inner] : *table)
      tree.children.push_back(tree_of(inner, std::string(inner_key.str()), name));
  } else if (const auto* array = node.as_array()) {
    tree.kind = Node::Kind::array;
    for (const auto& inner : *array) tree.children.push_back(tree_of(inner, "", name));
  }
  return tree;
}

void flatten(const Node& table, const std::string& prefix, std::vector<Entry>& entries) {
  for (const Node& child : table.children) {
    const bool is_table = child.kind == Node::Kind::table;
    entries.push_back({prefix + child.key, child.value, child.where, is_table});
    if (is_table) flatten(child, prefix + child.key + ".", entries);
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

toml::table parse_file(const std::string& text, const std::string& name) {
  if (!is_small(text))
    throw input_error(
        "has more than " + std::to_string(largest_deck) + " bytes or " + std::to_string(most_dots) + " dots",
        name, "A deck is a page of settings: take what else it holds out");
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw input_error("this is no valid TOML: " + std::string(error.description()),
                      name + ":" + std::to_string(error.source().begin.line),
                      "Mend the line; a deck has [table] headers, lines of key = value, and # comments");
  }
}

}  // namespace

const Node* Node::find(const std::string& name) const {
  const auto found =
      std::find_if(children.begin(), children.end(), [&](const Node& child) { return child.key == name; });
  return found == children.end() ? nullptr : &*found;
}

Node read_toml_tree(const std::string& text, const std::string& name) {
  return tree_of(parse_file(text, name), "", name);
}

std::vector<Entry> entries_of(const Node& table) {
  std::vector<Entry> entries;
  flatten(table, "", entries);
  return entries;
}

std::vector<Entry> read_toml(const std::string& text, const std::string& name) {
  return entries_of(read_toml_tree(text, name));
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

std::string override_text(const Entry& entry) {
  if (const auto* text = std::get_if<std::string>(&entry.value)) {
    // Plain where a word stays a string, quoted where it would be read as another value.
    const auto read_back = parse_value(*text);
    return entry.key + "=" +
           (read_back && !std::holds_alternative<std::string>(*read_back) ? toml_quoted(*text) : *text);
  }
  if (const auto* whole = std::get_if<std::int64_t>(&entry.value))
    return entry.key + "=" + std::to_string(*whole);
  if (const auto* truth = std::get_if<bool>(&entry.value)) return entry.key + (*truth ? "=true" : "=false");
  if (const auto* real = std::get_if<double>(&entry.value)) {
    std::ostringstream text;
    text.precision(17);
    text << *real;
    return entry.key + "=" + text.str();
  }
  return entry.key + "=" + std::get<OtherValue>(entry.value).type;
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
