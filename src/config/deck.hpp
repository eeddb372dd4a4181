// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Decks: a TOML file and "key=value" overrides in, a checked Config out.
#pragma once

#include "config/config.hpp"
#include "config/toml_reader.hpp"

#include <string>
#include <utility>
#include <vector>

namespace minisp::config {

/// Reads the deck in `deck_file`, applies `overrides` ("model.layers=4"; the value is TOML, and a word that
/// is no TOML value is taken as a string: "output.file=a.h5"), and checks everything that needs no rank
/// count. Relative paths, in the deck and on the command line alike, start at the working directory. Throws
/// Error (bad_input) at the first fault: "FILE:LINE: KEY: what, remedy" or "command line: KEY: ...". A key
/// that the deck and the command line both set takes the command line's value; a key set twice on the command
/// line, or twice in the deck, is an error.
Config load_config(const std::string& deck_file, const std::vector<std::string>& overrides = {});

/// The same with overrides that are values already and know their place, one a key.
Config load_config_with(const std::string& deck_file, const std::vector<Entry>& overrides);

/// An override of a key of decks, read as load_config() reads it.
Entry read_deck_override(const std::string& text);

/// A deck's text. Throws Error (bad_input) where it cannot be read.
std::string read_deck_text(const std::string& deck_file);

/// The same for a deck that is text already; `deck_name` stands for the file in messages.
Config parse_config(const std::string& deck_text, const std::string& deck_name,
                    const std::vector<std::string>& overrides = {});

/// What a deck may set: one entry a key, in the order in which a deck lists them.
struct KeyDescription {
  std::string key;    ///< "train.learning_rate"
  std::string type;   ///< "integer", "real", "boolean", "string", or the words it may be: "single | basp"
  std::string unit;   ///< "tokens", empty: a pure number
  std::string range;  ///< ">= 1", "0 to 1", empty: any
  std::string default_value;  ///< as TOML; "preset" where the preset or the folder decides
  std::string description;    ///< one line
};
std::vector<KeyDescription> describe_keys();

/// The keys as a table for a terminal (`minisp run --keys`), one table of the deck after the other.
std::string keys_help();

/// The whole configuration as a deck, every key with its value. parse_config() of it gives the same
/// Config again (deck_file, deck_text, overrides and notes apart).
std::string effective_deck(const Config& config);

/// The same as (key, value as TOML) pairs.
std::vector<std::pair<std::string, std::string>> settings(const Config& config);

}  // namespace minisp::config
