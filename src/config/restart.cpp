// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/restart.hpp"

#include "config/deck.hpp"
#include "config/enum_names.hpp"
#include "util/error.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace minisp::config {

namespace {

constexpr const char* family_key = "model.family";

/// Where and how it is computed, for how long, what is reported: no number of the training depends on these.
/// Weights come from the checkpoint, whatever they were at first.
bool is_free(const std::string& key) {
  constexpr std::array tables{"parallel.", "verify.", "output.", "export.", "inject.", "checkpoint."};
  constexpr std::array keys{"train.steps",  "train.warmup_steps", "train.recompute",
                            "model.preset", "model.folder",       "model.weights"};
  return std::any_of(tables.begin(), tables.end(),
                     [&](const char* table) { return key.rfind(table, 0) == 0; }) ||
         std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// May change, but then the run is not the one that was interrupted.
bool is_worth_a_note(const std::string& key) {
  return key.rfind("train.learning_rate", 0) == 0 || key == "data.file";
}

std::string default_of(const std::string& key) {
  for (const auto& description : describe_keys())
    if (description.key == key) return description.default_value;
  return "";
}

std::string shown(const std::string& value) {
  return value.empty() ? "nothing" : value;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> saved_settings(const Config& config) {
  auto pairs = settings(config);
  std::erase_if(pairs, [](const auto& pair) { return is_free(pair.first); });
  pairs.emplace_back(family_key, '"' + std::string(name_of(config.model.family)) + '"');
  return pairs;
}

std::vector<std::string> check_restart(const Config& config,
                                       const std::vector<std::pair<std::string, std::string>>& saved,
                                       const std::string& file) {
  struct Values {
    std::string then, now;
    bool was_there = false;
  };
  std::map<std::string, Values> values;
  for (const auto& [key, value] : saved_settings(config)) values[key].now = value;
  for (const auto& [key, value] : saved) {
    values[key].then = value;
    values[key].was_there = true;
  }
  std::vector<std::string> notes;
  for (const auto& [key, value] : values) {
    // A key that was not there yet when the checkpoint was written meant what is its default now.
    const std::string then = value.was_there ? value.then : default_of(key);
    if (then == value.now) continue;
    if (is_worth_a_note(key)) {
      notes.push_back(key + " is " + shown(value.now) + " from here on, and was " + shown(then) + ".");
      continue;
    }
    const std::string remedy = key == family_key ? "Name a model of that family"
                               : then.empty()    ? "Leave " + key + " out"
                                                 : "Set " + key + "=" + then;
    throw input_error(
        key + " was " + shown(then) + " when the checkpoint was saved, and is " + shown(value.now) + " now",
        file, remedy + ", or start anew without --restart");
  }
  return notes;
}

}  // namespace minisp::config
