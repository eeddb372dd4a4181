// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/sweep.hpp"

#include "config/deck.hpp"
#include "config/schema.hpp"
#include "config/suggest.hpp"
#include "util/error.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

namespace minisp::config {

namespace {

using Names = std::vector<std::string>;

constexpr std::size_t most_cases = 10000;
constexpr std::size_t longest_name = 200;

struct Variant {
  std::string name;
  std::vector<Entry> settings;
};

struct Axis {
  std::string name;
  std::vector<Variant> variants{};
  std::optional<std::size_t> baseline{};
};

[[noreturn]] void refuse(const Node& node, const std::string& key, const std::string& what,
                         const std::string& remedy) {
  throw input_error(what, node.where + ": " + key, remedy);
}

void require_known(const Node& table, const std::string& prefix, const Names& known) {
  for (const Node& child : table.children)
    if (std::find(known.begin(), known.end(), child.key) == known.end())
      refuse(child, prefix + child.key, "there is no such key", suggestion(child.key, known));
}

const Node& as_table(const Node& node, const std::string& key) {
  if (node.kind != Node::Kind::table)
    refuse(node, key, "this is no table", "Write it as [" + key + "] or [[" + key + "]] with keys below it");
  return node;
}

const std::vector<Node>& elements(const Node& node, const char* key) {
  if (node.kind != Node::Kind::array || node.children.empty())
    refuse(node, key, "this is no list, or an empty one",
           "Write it as [[" + std::string(key) + "]] or [one, two]");
  return node.children;
}

std::string text_in(const Node& table, const std::string& prefix, const std::string& key) {
  const Node* node = table.find(key);
  if (!node) return "";
  const auto* text = std::get_if<std::string>(&node->value);
  if (!text || text->empty())
    refuse(*node, prefix + key, "the value is no text", "It has to be a string in quotes");
  return *text;
}

void require_name(const std::string& name, const Node& table, const std::string& key) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '+' || c == '=' || c == '-';
  });
  if (!plain || name.empty() || name.front() == '.' || name.size() > longest_name)
    refuse(table.find("name") ? *table.find("name") : table, key,
           "'" + name + "' cannot be part of a file's name",
           "Give a short name of letters, digits and . _ + = -");
}

/// What the sweep itself decides.
void require_free_key(const Entry& entry) {
  const bool files = entry.key == "output.file" || entry.key == "output.overwrite";
  if (files || entry.key.rfind("export.", 0) == 0 || entry.key.rfind("checkpoint.", 0) == 0)
    throw input_error("a sweep names the files of its cases itself", entry.where + ": " + entry.key,
                      "Leave it out; sweep.folder says where they go");
}

/// Keys of decks below `table`, but for its own words.
std::vector<Entry> deck_settings(const Node& table, const std::string& prefix, const Names& own_words) {
  Node rest = table;
  std::erase_if(rest.children, [&](const Node& child) {
    return std::find(own_words.begin(), own_words.end(), child.key) != own_words.end();
  });
  Names known = own_words;
  known.insert(known.end(), table_names().begin(), table_names().end());
  for (const Node& child : rest.children)
    if (child.kind != Node::Kind::table)
      refuse(child, prefix + child.key, "there is no such key",
             suggestion(child.key, known) + "; a key of a deck is written with its table: train.steps = 3");
  auto entries = entries_of(rest);
  std::erase_if(entries, [](const Entry& entry) {
    const auto& tables = table_names();
    return entry.is_table && std::find(tables.begin(), tables.end(), entry.key) != tables.end();
  });
  for (const Entry& entry : entries) require_free_key(entry);
  return entries;
}

/// `more` is added to `settings`; no key may be in both.
void add_settings(std::vector<Entry>& settings, const std::vector<Entry>& more) {
  for (const Entry& entry : more) {
    const auto there =
        std::find_if(settings.begin(), settings.end(), [&](const Entry& e) { return e.key == entry.key; });
    if (there != settings.end())
      throw input_error("the key is set at " + there->where + " too", entry.where + ": " + entry.key,
                        "Set it in one axis, or in [set] for all cases");
    settings.push_back(entry);
  }
}

/// `more` takes the place of the same keys in `settings`.
std::vector<Entry> replaced(std::vector<Entry> settings, const std::vector<Entry>& more) {
  for (const Entry& entry : more) {
    std::erase_if(settings, [&](const Entry& e) { return e.key == entry.key; });
    settings.push_back(entry);
  }
  return settings;
}

/// key = "train.batch", values = [1, 2]: variants that need no blocks of their own.
void add_values(Axis& axis, const Node& node) {
  const std::string key = text_in(node, "axis.", "key");
  const Node* values = node.find("values");
  if (key.empty() || !values)
    refuse(node, "axis", "it has no variants",
           "Write axis.key and axis.values, or [[axis.variant]] blocks below it");
  if (axis.name.empty()) axis.name = key.substr(key.rfind('.') + 1);
  require_name(axis.name, node, "axis.name");
  for (const Node& value : elements(*values, "axis.values")) {
    Entry entry{key, value.value, value.where};
    require_free_key(entry);
    const auto* text = std::get_if<std::string>(&value.value);
    const std::string shown = override_text(entry).substr(key.size() + 1);
    axis.variants.push_back({text ? *text : axis.name + shown, {std::move(entry)}});
    require_name(axis.variants.back().name, value, "axis.values");
  }
}

std::size_t index_of(const std::string& wanted, const Names& names, const Node& node,
                     const std::string& key) {
  const auto found = std::find(names.begin(), names.end(), wanted);
  if (found == names.end())
    refuse(*node.find("baseline"), key, "there is no '" + wanted + "'", suggestion(wanted, names));
  return static_cast<std::size_t>(found - names.begin());
}

Axis read_axis(const Node& node) {
  as_table(node, "axis");
  require_known(node, "axis.", {"name", "key", "values", "variant", "baseline"});
  Axis axis{.name = text_in(node, "axis.", "name")};
  if (const Node* variants = node.find("variant")) {
    if (node.find("key") || node.find("values"))
      refuse(*variants, "axis.variant", "the axis has values too", "Keep one of the two");
    for (const Node& variant : elements(*variants, "axis.variant")) {
      const std::string name = text_in(as_table(variant, "axis.variant"), "axis.variant.", "name");
      require_name(name, variant, "axis.variant.name");
      axis.variants.push_back({name, deck_settings(variant, "axis.variant.", {"name"})});
    }
  } else {
    add_values(axis, node);
  }
  if (const std::string baseline = text_in(node, "axis.", "baseline"); !baseline.empty()) {
    Names names;
    for (const Variant& variant : axis.variants) names.push_back(variant.name);
    axis.baseline = index_of(baseline, names, node, "axis.baseline");
  }
  return axis;
}

std::vector<SweepCase> product(const std::vector<Axis>& axes, const Node& node) {
  std::size_t count = 1;
  const Axis* compared = nullptr;
  for (const Axis& axis : axes) {
    count *= axis.variants.size();
    if (count > most_cases)
      refuse(node, "axis", "the axes make more than " + std::to_string(most_cases) + " cases",
             "Make several sweeps of it");
    if (axis.baseline && compared)
      refuse(node, "axis.baseline", "two axes have one", "Keep that of the axis whose effect is asked for");
    if (axis.baseline) compared = &axis;
  }
  std::vector<SweepCase> cases(count);
  std::size_t stride = count;
  for (const Axis& axis : axes) {
    const std::size_t variants = axis.variants.size();
    stride /= variants;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = i / stride % variants;
      auto& name = cases[i].name;
      name += (name.empty() ? "" : "_") + axis.variants[at].name;
      add_settings(cases[i].settings, axis.variants[at].settings);
      if (&axis == compared && at != *axis.baseline) cases[i].baseline = i + (*axis.baseline - at) * stride;
    }
  }
  return cases;
}

std::vector<SweepCase> listed(const Node& node) {
  std::vector<SweepCase> cases;
  Names names;
  for (const Node& child : elements(node, "case")) {
    SweepCase one{.name = text_in(as_table(child, "case"), "case.", "name"),
                  .settings = deck_settings(child, "case.", {"name", "baseline"})};
    require_name(one.name, child, "case.name");
    names.push_back(one.name);
    cases.push_back(std::move(one));
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Node& child = node.children[i];
    const std::string baseline = text_in(child, "case.", "baseline");
    if (!baseline.empty()) cases[i].baseline = index_of(baseline, names, child, "case.baseline");
    if (cases[i].baseline == i)
      refuse(*child.find("baseline"), "case.baseline", "a case is its own", "Name another one");
  }
  return cases;
}

std::vector<SweepCase> read_cases(const Node& root, const std::string& file) {
  const Node *axes = root.find("axis"), *cases = root.find("case");
  if (axes && cases) refuse(*cases, "case", "the sweep has axes too", "Keep the axes, or the list of cases");
  if (!axes && !cases)
    throw input_error("the sweep has no cases", file, "Add [[axis]] or [[case]] blocks (doc/sweeps.md)");
  if (cases) return listed(*cases);
  std::vector<Axis> list;
  for (const Node& axis : elements(*axes, "axis")) list.push_back(read_axis(axis));
  return product(list, *axes);
}

std::int64_t whole_in(const Entry& entry, std::int64_t smallest, std::int64_t largest) {
  const auto* value = std::get_if<std::int64_t>(&entry.value);
  if (!value || *value < smallest || *value > largest)
    throw input_error(
        "the value is no such number", entry.where + ": " + entry.key,
        "It has to be a whole number from " + std::to_string(smallest) + " to " + std::to_string(largest));
  return *value;
}

std::vector<Entry> with_prefix(const std::string& prefix, std::vector<Entry> entries) {
  for (Entry& entry : entries) entry.key = prefix + entry.key;
  return entries;
}

void read_settings(SweepConfig& sweep, std::vector<Entry> entries) {
  const Names known{"deck", "folder", "rounds", "ranks"};
  for (Entry& entry : entries) {
    const std::string key = entry.key.substr(entry.key.find('.') + 1);
    const auto* text = std::get_if<std::string>(&entry.value);
    if (key == "rounds") {
      sweep.rounds = whole_in(entry, 1, 100000);
    } else if (key == "ranks") {
      sweep.ranks = whole_in(entry, 0, std::int64_t{1} << 30);
    } else if (key == "deck" || key == "folder") {
      if (!text || text->empty())
        throw input_error("the value is no path", entry.where + ": " + entry.key,
                          "It has to be a string in quotes");
      (key == "deck" ? sweep.deck_file : sweep.folder) = *text;
    } else {
      throw input_error("there is no such key", entry.where + ": " + entry.key, suggestion(key, known));
    }
  }
}

/// A path in the sweep's file starts at the file's folder, as the decks that belong to it lie beside it.
std::string beside(const std::string& file, const std::string& path) {
  const std::filesystem::path given(path);
  return given.is_absolute()
             ? path
             : (std::filesystem::path(file).parent_path() / given).lexically_normal().string();
}

bool is_sweep_key(const Entry& entry) {
  return entry.key.rfind("sweep.", 0) == 0;
}

/// The case's deck, with the case named in what is wrong with it.
void load_case(const SweepConfig& sweep, SweepCase& one) {
  auto settings = one.settings;
  settings.push_back({"output.file", sweep.folder + "/" + one.name, sweep.file});
  try {
    one.config = load_config_with(sweep.deck_file, settings);
  } catch (const Error& error) {
    throw Error(error.code(), "case " + one.name + ": " + error.problem(), error.where(), error.remedy());
  }
  one.config.output.overwrite = false;
  one.config.export_to.folder.clear();
  one.config.checkpoint = {};  // a case that is interrupted runs again
}

}  // namespace

SweepConfig parse_sweep(const std::string& text, const std::string& file,
                        const std::vector<std::string>& overrides) {
  const Node root = read_toml_tree(text, file);
  require_known(root, "", {"sweep", "set", "axis", "case"});
  SweepConfig sweep{.file = file, .text = text};
  sweep.folder = "results/" + std::filesystem::path(file).stem().string();
  if (const Node* table = root.find("sweep"))
    read_settings(sweep, with_prefix("sweep.", entries_of(as_table(*table, "sweep"))));
  if (!sweep.deck_file.empty()) sweep.deck_file = beside(file, sweep.deck_file);

  std::vector<Entry> own, given;
  for (const std::string& text_of_override : overrides) {
    Entry entry = read_deck_override(text_of_override);
    if (!is_sweep_key(entry)) require_free_key(entry);
    auto& list = is_sweep_key(entry) ? own : given;
    list.push_back(std::move(entry));
  }
  read_settings(sweep, std::move(own));
  if (sweep.deck_file.empty())
    throw input_error("no deck is named", file + ": sweep.deck",
                      "Set it to the deck that every case starts from, beside this file");

  std::vector<Entry> common;
  if (const Node* set = root.find("set")) common = deck_settings(as_table(*set, "set"), "set.", {});
  common = replaced(std::move(common), given);
  sweep.cases = read_cases(root, file);
  std::set<std::string> names;
  for (SweepCase& one : sweep.cases) {
    if (!names.insert(one.name).second || one.name.size() > longest_name)
      throw input_error("two cases are called '" + one.name + "', or the name is too long", file,
                        "Give their variants names that tell them apart");
    // What only [set] says gives way to the case; what the command line says as well is a contradiction.
    for (const Entry& entry : given) add_settings(one.settings, {entry});
    auto settings = common;
    one.settings = replaced(std::move(settings), one.settings);
    load_case(sweep, one);
  }
  return sweep;
}

SweepConfig load_sweep(const std::string& file, const std::vector<std::string>& overrides) {
  return parse_sweep(read_deck_text(file), file, overrides);
}

Config config_of(const SweepCase& sweep_case, const std::string& output_file) {
  Config config = sweep_case.config;
  config.output.file = output_file;
  config.overrides.back() = "output.file=" + output_file;
  return config;
}

}  // namespace minisp::config
