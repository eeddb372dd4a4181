// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "perfmodel/machine.hpp"

#include "config/deck.hpp"
#include "config/suggest.hpp"
#include "config/toml_reader.hpp"
#include "util/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace minisp::perfmodel {

namespace {

using config::Node;

enum class Kind { cost, rate, count, ratio };  // >= 0 and finite; > 0, maybe inf; >= 1 and whole; >= 1

template <class S>
struct Field {
  const char* key;
  double S::*member;
  Kind kind;
  const char* meaning;
};

constexpr Field<PhaseRates> phase_fields[] = {
    {"seconds_per_call", &PhaseRates::seconds_per_call, Kind::cost, "s, of one call of a kernel"},
    {"flops_per_s", &PhaseRates::flops_per_s, Kind::rate, "FLOP/s of one rank"},
    {"bytes_per_s", &PhaseRates::bytes_per_s, Kind::rate, "B/s of one rank, read or written"},
    {"exponentials_per_s", &PhaseRates::exponentials_per_s, Kind::rate, "1/s of one rank"},
};
constexpr Field<CollectiveRates> collective_fields[] = {
    {"seconds_per_call", &CollectiveRates::seconds_per_call, Kind::cost, "s, of one call"},
    {"seconds_per_peer_on_node", &CollectiveRates::seconds_per_peer_on_node, Kind::cost, "s"},
    {"seconds_per_peer_off_node", &CollectiveRates::seconds_per_peer_off_node, Kind::cost, "s"},
    {"bytes_per_s_on_node", &CollectiveRates::bytes_per_s_on_node, Kind::rate,
     "B/s that one rank sends to ranks on its node, all at once"},
    {"bytes_per_s_off_node", &CollectiveRates::bytes_per_s_off_node, Kind::rate,
     "B/s that one link of a node carries off it, each way"},
};
constexpr Field<SkewRates> skew_fields[] = {
    {"seconds_per_call", &SkewRates::seconds_per_call, Kind::cost,
     "s: the mean rank waits log2(P) times this for the last of P"},
    {"share_of_work", &SkewRates::share_of_work, Kind::cost,
     "and log2(P) times this share of what it computed since the last collective"},
    {"share_of_wire", &SkewRates::share_of_wire, Kind::cost,
     "the last rank leaves a collective over links later than the mean one by this share of it"},
};
constexpr Field<ShareRates> share_fields[] = {
    {"ranks_per_core", &ShareRates::ranks_per_core, Kind::ratio, "ranks that take turns on a core"},
    {"seconds_per_turn", &ShareRates::seconds_per_turn, Kind::cost,
     "s: computing that is shorter is not interrupted, and others wait"},
};
constexpr Field<Machine> step_fields[] = {
    {"exposed_gathers", &Machine::exposed_gathers, Kind::cost,
     "share of a prefetched gather of weights that computing does not hide"},
    {"slowest_over_mean", &Machine::slowest_over_mean, Kind::ratio,
     "step of the slowest rank over the mean rank's"},
};

const std::vector<std::string> precisions = {"fp64", "fp32", "bf16"};
const std::vector<std::string> origins = {"calibrated", "fitted", "data sheet"};
const std::vector<std::string> phases = {
    "default",         "data",      "zero_gradients",    "embedding",     "norm",
    "linear_qkv",      "rope_pack", "attention forward", "linear_output", "mlp",
    "dropout",         "head_loss", "optimizer",         "gradient_norm", "attention backward",
    "reduce gradients"};

double number_of(const Node& node, const std::string& key, Kind kind) {
  double value = std::nan("");
  if (const auto* whole = std::get_if<std::int64_t>(&node.value)) value = static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&node.value)) value = *real;
  const auto refuse = [&](const char* remedy) {
    throw input_error(std::isnan(value) ? "the value is no number" : fmt::format("{} is out of range", value),
                      node.where + ": " + key, remedy);
  };
  switch (kind) {
    case Kind::cost:
      if (!(value >= 0) || std::isinf(value)) refuse("It has to be a number of 0 or more");
      break;
    case Kind::rate:
      if (!(value > 0)) refuse("It has to be a number above 0; inf where this costs nothing");
      break;
    case Kind::count:
      if (!(value >= 1) || value != std::floor(value) || value > 1e9)
        refuse("It has to be a whole number from 1");
      break;
    case Kind::ratio:
      if (!(value >= 1) || std::isinf(value)) refuse("It has to be a number of 1 or more");
      break;
  }
  return value;
}

// Views: to GCC 13 and later a reference that comes from a temporary string could refer into it.
const Node& child(const Node& table, std::string_view path, std::string_view key) {
  const Node* node = table.find(std::string(key));
  if (!node)
    throw input_error("the key is missing", fmt::format("{}: {}{}", table.where, path, key),
                      "doc/performance_model.md lists what a machine file holds");
  return *node;
}

void require_known(const Node& table, const std::string& path, const std::vector<std::string>& known) {
  if (table.kind != Node::Kind::table)
    throw input_error("this is no table", table.where + ": " + path,
                      "Write it as [" + path + "] with keys below");
  for (const Node& one : table.children)
    if (std::find(known.begin(), known.end(), one.key) == known.end())
      throw input_error("there is no such key", one.where + ": " + (path.empty() ? "" : path + ".") + one.key,
                        config::suggestion(one.key, known));
}

template <class S, std::size_t n>
void read_fields(const Node& table, const std::string& path, const Field<S> (&fields)[n], S& out) {
  std::vector<std::string> known;
  for (const auto& field : fields) known.emplace_back(field.key);
  require_known(table, path, known);
  for (const auto& field : fields)
    out.*field.member = number_of(child(table, path + ".", field.key), path + "." + field.key, field.kind);
}

std::string text_of(const Node& table, const std::string& key) {
  const Node& node = child(table, "machine.", key);
  const auto* text = std::get_if<std::string>(&node.value);
  if (!text || text->empty())
    throw input_error("the value is no text", node.where + ": machine." + key,
                      "It has to be a string in quotes");
  return *text;
}

void read_head(const Node& table, Machine& machine) {
  require_known(table, "machine",
                {"name", "origin", "ranks_per_node", "links_per_node", "link_burst_bytes", "memory_gib"});
  machine.name = text_of(table, "name");
  machine.origin = text_of(table, "origin");
  if (std::find(origins.begin(), origins.end(), machine.origin) == origins.end())
    throw input_error("'" + machine.origin + "' is no origin of a machine's numbers",
                      table.find("origin")->where + ": machine.origin",
                      config::suggestion(machine.origin, origins));
  const auto number = [&](const char* key, Kind kind) {
    return number_of(child(table, "machine.", key), std::string("machine.") + key, kind);
  };
  machine.ranks_per_node = static_cast<std::int64_t>(number("ranks_per_node", Kind::count));
  machine.links_per_node = static_cast<std::int64_t>(number("links_per_node", Kind::count));
  machine.link_burst_bytes = number("link_burst_bytes", Kind::cost);
  machine.memory_gib = number("memory_gib", Kind::cost);
}

void read_compute(const Node& table, Machine& machine) {
  require_known(table, "compute", precisions);
  for (const Node& precision : table.children) {
    const std::string path = "compute." + precision.key;
    require_known(precision, path, phases);
    child(precision, path + ".", "default");
    for (const Node& phase : precision.children)
      read_fields(phase, path + "." + phase.key, phase_fields, machine.compute[precision.key][phase.key]);
  }
}

void read_ranges(const Node& table, Machine& machine) {
  require_known(table, "range", range_names());
  for (const Node& range : table.children) {
    const std::string key = "range." + range.key;
    if (range.kind != Node::Kind::array || range.children.size() != 2)
      throw input_error("this is no list of two numbers", range.where + ": " + key,
                        "Write the least and the largest value: [2, 8]");
    Range& read = machine.ranges[range.key];
    read.least = number_of(range.children[0], key, Kind::cost);
    read.most = number_of(range.children[1], key, Kind::cost);
    if (read.most < read.least)
      throw input_error(fmt::format("{} to {} is no range", read.least, read.most), range.where + ": " + key,
                        "Write the least value first");
  }
}

template <class S, std::size_t n>
void write_fields(const std::string& path, const Field<S> (&fields)[n], const S& values, std::string& text) {
  text += "\n[" + path + "]\n";
  for (const auto& field : fields)
    text += fmt::format("{} = {:#.5g}  # {}\n", field.key, values.*field.member, field.meaning);
}

}  // namespace

const std::vector<std::string>& range_names() {
  static const std::vector<std::string> names = {
      "ranks",  "group_ranks", "ranks_per_node", "tokens_a_rank", "sequence_length",
      "hidden", "head_dim",    "intermediate",   "vocabulary",    "bytes_per_peer"};
  return names;
}

const PhaseRates& Machine::rates(config::Precision precision, const std::string& phase) const {
  const auto table = compute.find(config::to_string(precision));
  if (table == compute.end())
    throw input_error(fmt::format("has no rates of {}", config::to_string(precision)), "machine " + name,
                      "Calibrate with --precision, or set train.precision to one that it has");
  const auto found = table->second.find(phase);
  return found == table->second.end() ? table->second.at("default") : found->second;
}

Machine parse_machine(const std::string& text, const std::string& file) {
  const Node root = config::read_toml_tree(text, file);
  require_known(root, "",
                {"machine", "compute", "all_to_all", "all_gather", "skew", "share", "step", "range"});
  Machine machine;
  read_head(child(root, "", "machine"), machine);
  read_compute(child(root, "", "compute"), machine);
  read_fields(child(root, "", "all_to_all"), "all_to_all", collective_fields, machine.all_to_all);
  read_fields(child(root, "", "all_gather"), "all_gather", collective_fields, machine.all_gather);
  read_fields(child(root, "", "skew"), "skew", skew_fields, machine.skew);
  if (const Node* share = root.find("share")) read_fields(*share, "share", share_fields, machine.share);
  read_fields(child(root, "", "step"), "step", step_fields, machine);
  if (const Node* ranges = root.find("range")) read_ranges(*ranges, machine);
  return machine;
}

Machine read_machine(const std::string& file) {
  return parse_machine(config::read_deck_text(file), file);
}

std::string machine_text(const Machine& machine, const std::vector<std::string>& notes) {
  std::string text =
      "# SPDX-FileCopyrightText: the miniSP contributors\n# SPDX-License-Identifier: BSD-3-Clause\n";
  for (const auto& note : notes) text += (note.empty() ? "#" : "# " + note) + "\n";
  text += fmt::format(
      "\n[machine]\nname = {}\norigin = \"{}\"  # calibrated: measured; fitted: to published figures; data "
      "sheet\n"
      "ranks_per_node = {}\nlinks_per_node = {}  # that carry traffic off the node\n"
      "link_burst_bytes = {:.10g}  # B that a link passes at once after a pause, where a queue limits its "
      "rate\n"
      "memory_gib = {:#.6g}  # GiB of one rank, 0: not known\n",
      config::toml_quoted(machine.name), machine.origin, machine.ranks_per_node, machine.links_per_node,
      machine.link_burst_bytes, machine.memory_gib);
  for (const auto& [precision, table] : machine.compute)
    for (const auto& [phase, rates] : table)
      write_fields(
          "compute." + precision + "." + (phase.find(' ') == std::string::npos ? phase : "\"" + phase + "\""),
          phase_fields, rates, text);
  write_fields("all_to_all", collective_fields, machine.all_to_all, text);
  write_fields("all_gather", collective_fields, machine.all_gather, text);
  write_fields("skew", skew_fields, machine.skew, text);
  if (machine.share.ranks_per_core > 1) write_fields("share", share_fields, machine.share, text);
  write_fields("step", step_fields, machine, text);
  if (!machine.ranges.empty()) text += "\n[range]  # what the constants were found from: least and largest\n";
  for (const auto& [name, range] : machine.ranges)
    text += fmt::format("{} = [{:.10g}, {:.10g}]\n", name, range.least, range.most);
  return text;
}

}  // namespace minisp::perfmodel
