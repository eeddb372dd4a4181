// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// TOML text as a flat list of "table.key" entries that know their line. Keeps the TOML library in one file.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace minisp::config {

/// A TOML value that is none of the four scalars: an array, a date, a table where a value belongs.
struct OtherValue {
  std::string type;
};
using Value = std::variant<std::int64_t, double, bool, std::string, OtherValue>;

struct Entry {
  std::string key;  ///< "train.steps"; "table." for a table without keys
  Value value;
  std::string where;      ///< "FILE:LINE" or "command line"
  bool is_table = false;  ///< a table header with nothing in it
};

/// Bytes of a deck; those in inputs/ have two thousand.
inline constexpr std::int64_t largest_deck = 64 << 10;

/// Throws Error (bad_input) with file and line where `text` is no TOML, and for texts of more than
/// largest_deck bytes or nested deeper than any deck.
std::vector<Entry> read_toml(const std::string& text, const std::string& name);

/// TOML as a tree, for files that hold arrays. Tables keep no order of their own, arrays do.
struct Node {
  enum class Kind { value, table, array };
  std::string key;  ///< empty for the root and for elements of arrays
  Kind kind = Kind::value;
  Value value;                   ///< of a value
  std::string where;             ///< "FILE:LINE"
  std::vector<Node> children{};  ///< of a table, by key; of an array, in their order

  /// The child of that name, or nullptr.
  const Node* find(const std::string& name) const;
};

/// The root table. Throws Error (bad_input) as read_toml() does.
Node read_toml_tree(const std::string& text, const std::string& name);

/// A table of the tree as read_toml() lists tables: "train.steps" for `steps` in its table `train`.
std::vector<Entry> entries_of(const Node& table);

/// "key=value" from the command line. A value that is not TOML becomes a string, and so does every value
/// where `is_text(key)`. Throws Error (bad_input) where there is no '=' or no key, and for text that no deck
/// holds.
Entry read_override(const std::string& text, bool (*is_text)(const std::string& key));

/// The entry as "key=value", which read_override() takes back.
std::string override_text(const Entry& entry);

/// A string as TOML, quoted and escaped.
std::string toml_quoted(const std::string& text);

}  // namespace minisp::config
