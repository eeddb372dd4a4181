// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The one list of what a deck may set. Parsing, messages, help and the dump of a configuration all walk it.
#pragma once

#include "config/config.hpp"
#include "config/toml_reader.hpp"

#include <functional>
#include <string>
#include <vector>

namespace minisp::config {

struct Key {
  std::string name{};  ///< "train.steps"
  std::string type{};  ///< "integer", "real", "boolean", "string", or "one | another"
  std::string unit{};
  std::string range{};
  std::string description{};
  bool is_text = false;      ///< string or one of some words
  bool from_preset = false;  ///< the default is the preset's or the folder's
  /// Stores a value; throws Error (bad_input) at `where` for a wrong type or a value out of range.
  std::function<void(Config&, const Value&, const std::string& where)> set{};
  /// The present value as TOML; empty where the key does not apply (the scaling of plain rotary positions).
  std::function<std::string(const Config&)> get{};
};

/// All keys, table by table; `model.preset` and `model.folder` first, `model.rope_scaling` before its
/// factors.
const std::vector<Key>& schema();

/// The key of that name, or nullptr.
const Key* find_key(const std::string& name);

/// The tables: "model", "data", ...
const std::vector<std::string>& table_names();

}  // namespace minisp::config
