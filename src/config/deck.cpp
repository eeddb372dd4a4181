// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/deck.hpp"

#include "config/architecture_fault.hpp"
#include "config/cross_check.hpp"
#include "config/foreign_text.hpp"
#include "config/hugging_face.hpp"
#include "config/presets.hpp"
#include "config/schema.hpp"
#include "config/suggest.hpp"
#include "util/error.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

namespace minisp::config {

namespace {

bool is_text_key(const std::string& name) {
  const Key* key = find_key(name);
  return key && key->is_text;
}

std::string table_of(const std::string& key) {
  return key.substr(0, key.find('.'));
}

[[noreturn]] void unknown_key(const Entry& entry) {
  const std::string where = entry.where + ": " + entry.key;
  const std::string table = table_of(entry.key);
  const auto& tables = table_names();
  const bool known_table = std::find(tables.begin(), tables.end(), table) != tables.end();
  if (entry.is_table && entry.key == table)
    throw input_error("no table of a deck has this name", where, suggestion(table, tables));
  std::vector<std::string> all, of_table, same_word;
  const std::string word = entry.key.substr(entry.key.rfind('.') + 1);
  for (const Key& key : schema()) {
    all.push_back(key.name);
    if (table_of(key.name) == table) of_table.push_back(key.name);
    if (key.name.substr(key.name.find('.') + 1) == word) same_word.push_back(key.name);
  }
  std::string near = nearest(entry.key, all);
  if (!same_word.empty()) near = same_word.front();
  std::string remedy = near.empty() ? "" : "Did you mean " + near + "? ";
  if (known_table) {
    remedy += "Keys of [" + table + "]: ";
    for (const std::string& name : of_table)
      remedy += (name == of_table.front() ? "" : ", ") + name.substr(table.size() + 1);
  } else {
    remedy += "Tables of a deck: ";
    for (const std::string& name : tables) remedy += (name == tables.front() ? "" : ", ") + name;
  }
  throw input_error("there is no such key", where, remedy);
}

/// The deck's entries with the command line's in place of those that both set.
std::map<std::string, Entry> merged_entries(const std::string& text, const std::string& name,
                                            const std::vector<Entry>& overrides) {
  std::map<std::string, Entry> merged;
  const auto& tables = table_names();
  for (Entry& entry : read_toml(text, name)) {
    if (entry.is_table && std::find(tables.begin(), tables.end(), entry.key) != tables.end()) continue;
    if (!find_key(entry.key)) unknown_key(entry);
    merged[entry.key] = std::move(entry);
  }
  std::map<std::string, Entry> given;
  for (const Entry& entry : overrides) {
    if (!find_key(entry.key)) unknown_key(entry);
    if (given.count(entry.key))
      throw input_error("the key is given twice", entry.where + ": " + entry.key, "Give it once");
    given[entry.key] = entry;
  }
  // A model named on the command line takes the place of the deck's, whichever of the two keys names it.
  if (given.count("model.preset") || given.count("model.folder")) {
    merged.erase("model.preset");
    merged.erase("model.folder");
  }
  for (auto& [key, entry] : given) merged[key] = std::move(entry);
  return merged;
}

std::string where_of(const Entry& entry) {
  return entry.where + ": " + entry.key;
}

/// The architecture before any size is overridden.
Architecture base_architecture(const std::map<std::string, Entry>& entries, const std::string& name,
                               std::vector<std::string>& notes) {
  const auto preset_entry = entries.find("model.preset"), folder_entry = entries.find("model.folder");
  if (preset_entry != entries.end() && folder_entry != entries.end())
    throw input_error("the deck names a preset and a folder", where_of(folder_entry->second),
                      "Keep one of model.preset and model.folder");
  const auto text_of_entry = [](const Entry& entry) {
    Config scratch;
    find_key(entry.key)->set(scratch, entry.value, where_of(entry));
    return std::get<std::string>(entry.value);
  };
  if (preset_entry != entries.end()) {
    const std::string wanted = text_of_entry(preset_entry->second);
    const auto& names = preset_names();
    if (std::find(names.begin(), names.end(), wanted) == names.end())
      throw input_error("there is no preset '" + wanted + "'", where_of(preset_entry->second),
                        suggestion(wanted, names));
    return preset(wanted);
  }
  if (folder_entry == entries.end())
    throw input_error("no model is named", name + ": model.preset",
                      "Set model.preset to one of the names that 'minisp info' lists, or model.folder to a "
                      "Hugging Face folder");
  const std::string folder = text_of_entry(folder_entry->second);
  if (!std::filesystem::is_directory(folder))
    throw input_error("'" + folder + "' is no folder", where_of(folder_entry->second),
                      "Name a folder with config.json and model.safetensors; a relative path starts at the "
                      "working directory");
  HuggingFaceModel model = read_hugging_face_config(folder);
  notes = std::move(model.notes);
  return std::move(model.architecture);
}

std::vector<Entry> read_overrides(const std::vector<std::string>& texts) {
  std::vector<Entry> entries;
  for (const std::string& text : texts) entries.push_back(read_deck_override(text));
  return entries;
}

Config parse(const std::string& deck_text, const std::string& deck_name,
             const std::vector<Entry>& overrides) {
  const std::map<std::string, Entry> entries = merged_entries(deck_text, deck_name, overrides);
  Config config;
  config.deck_file = deck_name;
  config.deck_text = deck_text;
  for (const Entry& entry : overrides) config.overrides.push_back(override_text(entry));
  const Architecture base = base_architecture(entries, deck_name, config.notes);
  config.model = base;
  for (const Key& key : schema()) {
    const auto entry = entries.find(key.name);
    if (entry != entries.end()) key.set(config, entry->second.value, where_of(entry->second));
  }
  const auto where = [&](const std::string& key) {
    const auto entry = entries.find(key);
    return entry != entries.end() ? where_of(entry->second) : deck_name + ": " + key + " (not set)";
  };
  cross_check(config, base, where);
  return config;
}

}  // namespace

Entry read_deck_override(const std::string& text) {
  return read_override(text, is_text_key);
}

Config parse_config(const std::string& deck_text, const std::string& deck_name,
                    const std::vector<std::string>& overrides) {
  Config config = parse(deck_text, deck_name, read_overrides(overrides));
  config.overrides = overrides;
  return config;
}

std::string read_deck_text(const std::string& deck_file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(deck_file, ignored))
    throw input_error("this is a folder", deck_file, "Name a deck, a TOML file such as inputs/tiny.toml");
  std::ifstream file(deck_file, std::ios::binary);
  std::string text;
  if (file)
    text = read_up_to(file, largest_deck, deck_file, "Name a deck, a TOML file such as inputs/tiny.toml");
  if (file.bad() || !file.is_open())
    throw input_error("the deck cannot be read", deck_file, "Check the path; decks lie in inputs/");
  return text;
}

Config load_config(const std::string& deck_file, const std::vector<std::string>& overrides) {
  return parse_config(read_deck_text(deck_file), deck_file, overrides);
}

Config load_config_with(const std::string& deck_file, const std::vector<Entry>& overrides) {
  return parse(read_deck_text(deck_file), deck_file, overrides);
}

std::vector<KeyDescription> describe_keys() {
  const Config defaults;
  std::vector<KeyDescription> list;
  for (const Key& key : schema()) {
    std::string value = key.from_preset ? "preset" : key.get(defaults);
    if (key.name == "model.preset") value.clear();
    list.push_back({key.name, key.type, key.unit, key.range, value, key.description});
  }
  return list;
}

std::string keys_help() {
  std::ostringstream out;
  std::string table;
  for (const KeyDescription& key : describe_keys()) {
    if (table_of(key.key) != table) {
      out << (table.empty() ? "" : "\n");
      table = table_of(key.key);
    }
    out << key.key << "\n    " << key.description << "\n    " << key.type;
    if (!key.range.empty()) out << ", " << key.range;
    if (!key.unit.empty()) out << ", in " << key.unit;
    if (!key.default_value.empty() && key.default_value != "\"\"") out << "; default " << key.default_value;
    out << '\n';
  }
  return out.str();
}

std::vector<std::pair<std::string, std::string>> settings(const Config& config) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Key& key : schema())
    if (auto value = key.get(config); !value.empty()) pairs.emplace_back(key.name, std::move(value));
  return pairs;
}

std::string effective_deck(const Config& config) {
  std::ostringstream out;
  std::string table;
  for (const auto& [name, value] : settings(config)) {
    if (table_of(name) != table) {
      out << (table.empty() ? "" : "\n");
      table = table_of(name);
      out << '[' << table << "]\n";
    }
    out << name.substr(table.size() + 1) << " = " << value << '\n';
  }
  return out.str();
}

}  // namespace minisp::config
