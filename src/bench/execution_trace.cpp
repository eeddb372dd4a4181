// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Execution traces with the nodes of Chakra's schema (mlcommons/chakra, schema/protobuf/et_def.proto): field
// names and enumerators are those of the schema, so that each node is the JSON form of a ChakraProtoMsg.Node.
#include "bench/trace_files.hpp"
#include "comm/agree.hpp"
#include "comm/scalars.hpp"
#include "io/output_file.hpp"
#include "io/parts_file.hpp"
#include "io/provenance.hpp"
#include "util/error.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace minisp::bench {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* schema_version = "0.0.4";
constexpr const char* groups_file = "comm_groups.json";
constexpr bool on_cpu = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;

/// Without a slash at the end, which would hide the parent.
fs::path folder_path(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

std::string trace_file(int rank) {
  return fmt::format("et.{}.json", rank);
}

/// CollectiveCommType of the schema; scalars are small gathers.
int communication_type(const std::string& collective) {
  static constexpr std::array<std::pair<const char*, int>, 7> types{{{"all_reduce_sum", 0},
                                                                     {"all_gather", 2},
                                                                     {"scalars", 2},
                                                                     {"broadcast", 5},
                                                                     {"all_to_all", 6},
                                                                     {"reduce_scatter_sum", 7},
                                                                     {"barrier", 9}}};
  for (const auto& [name, type] : types)
    if (collective == name) return type;
  throw std::logic_error("no type of Chakra's for " + collective);
}

/// Bytes of the larger one of this rank's buffers: N blocks; an all-reduce sends each of its blocks twice.
Index buffer_bytes(const TracedCall& call) {
  const Index bytes = call.bytes_per_peer * call.ranks;
  return call.collective == "all_reduce_sum" ? bytes / 2 : bytes;
}

/// A number for each communicator of the job: a kind of communicator and its lowest rank.
struct Groups {
  struct Member {
    std::string name;
    int number = 0;
    std::vector<int> ranks;
  };
  std::vector<Member> mine;

  explicit Groups(const parallel::Mesh& mesh) {
    const int world_ranks = mesh.world().size();
    int kind = 0;
    for (const auto* communicator : {&mesh.world(), &mesh.sequence(), &mesh.shard(), &mesh.replicas()}) {
      Member& member = mine.emplace_back();
      member.name = communicator->name();
      for (const Index rank : comm::gather_scalar(*communicator, static_cast<Index>(mesh.rank())))
        member.ranks.push_back(static_cast<int>(rank));
      member.number = kind++ * world_ranks + *std::min_element(member.ranks.begin(), member.ranks.end());
    }
  }
  int number(const std::string& name) const {
    for (const auto& member : mine)
      if (member.name == name) return member.number;
    throw std::logic_error("a collective over an unknown communicator " + name);
  }
};

/// Builds the graph in program order: a node waits for what kept the rank before it. A collective that was
/// only started keeps it from where it is waited for.
class Graph {
 public:
  Graph(const Groups& groups, double origin) : groups_(groups), origin_(origin) {}

  void add_compute(const std::string& name, const Interval& interval) {
    const auto micros = microseconds(interval.end) - microseconds(interval.begin);
    if (micros <= 0) return;
    last_ = {add(name, "COMP_NODE", interval, json::array())};
  }
  /// The number of the node.
  std::size_t add_collective(const TracedCall& call, const Interval& interval, bool started) {
    json attributes = json::array();
    attributes.push_back({{"name", "comm_type"}, {"int64_val", communication_type(call.collective)}});
    attributes.push_back({{"name", "comm_size"}, {"int64_val", buffer_bytes(call)}});
    attributes.push_back(
        {{"name", "pg_name"}, {"string_val", std::to_string(groups_.number(call.communicator))}});
    const auto node = add(call.collective + ", " + call.phase, "COMM_COLL_NODE", interval, attributes);
    if (!started) last_ = {node};
    return node;
  }
  void wait_for(std::size_t node) { last_.push_back(node); }

  const json& nodes() const { return nodes_; }

 private:
  std::size_t add(const std::string& name, const char* type, const Interval& interval, json attributes) {
    const json place{{"name", "is_cpu_op"}, {"bool_val", on_cpu}};
    attributes.push_back(place);
    const auto id = nodes_.size();
    nodes_.push_back({{"id", id},
                      {"name", name},
                      {"type", type},
                      {"ctrl_deps", json::array()},
                      {"data_deps", last_},
                      {"start_time_micros", microseconds(interval.begin)},
                      {"duration_micros", microseconds(interval.end) - microseconds(interval.begin)},
                      {"attr", std::move(attributes)}});
    return id;
  }
  long long microseconds(double seconds) const { return std::llround(1e6 * (seconds - origin_)); }

  const Groups& groups_;
  double origin_;
  json nodes_ = json::array();
  std::vector<std::size_t> last_;
};

/// Phases and collectives of a step cut into stretches that follow each other.
class Timeline {
 public:
  Timeline(const StepTrace& trace, Graph& graph)
      : trace_(trace), graph_(graph), node_of_(trace.calls.size()) {
    for (const auto& phase : trace.phases) items_.push_back({phase, &phase, nullptr, nullptr});
    for (const auto& call : trace.calls) {
      items_.push_back({call, nullptr, &call, nullptr});
      for (const auto& transfer : call.transfers)
        if (transfer.started()) items_.push_back({transfer.later, nullptr, &call, &transfer});
    }
    std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return a.interval.begin != b.interval.begin ? a.interval.begin < b.interval.begin
                                                  : a.interval.end > b.interval.end;
    });
  }

  void build() {
    now_ = trace_.begin;
    for (const auto& item : items_) {
      while (!open_.empty() && open_.back()->end <= item.interval.begin) close();
      compute_until(item.interval.begin);
      if (item.phase != nullptr)
        open_.push_back(item.phase);
      else
        collective(item);
    }
    while (!open_.empty()) close();
    compute_until(trace_.end);
  }

 private:
  struct Item {
    Interval interval;
    const TracedPhase* phase;
    const TracedCall* call;
    const TracedTransfer* waited;
  };

  void collective(const Item& item) {
    auto& node = node_of_[static_cast<std::size_t>(item.call - trace_.calls.data())];
    if (item.waited != nullptr) {
      graph_.wait_for(node);
    } else {
      Interval interval = *item.call;
      bool started = false;
      for (const auto& transfer : item.call->transfers) {
        started = started || transfer.started();
        interval.end = std::max(interval.end, transfer.later.end);
      }
      node = graph_.add_collective(*item.call, interval, started);
    }
    now_ = std::max(now_, item.interval.end);
  }
  void close() {
    compute_until(open_.back()->end);
    open_.pop_back();
  }
  void compute_until(double end) {
    if (end <= now_) return;
    graph_.add_compute(open_.empty() ? "in no phase" : open_.back()->name, {now_, end});
    now_ = end;
  }

  const StepTrace& trace_;
  Graph& graph_;
  std::vector<std::size_t> node_of_;
  std::vector<Item> items_;
  std::vector<const TracedPhase*> open_;
  double now_ = 0;
};

void make_folder(const std::string& folder) {
  std::error_code code;
  fs::create_directory(folder, code);
  if (code)
    throw environment_error("cannot be made (" + code.message() + ")", folder,
                            "Change output.execution_trace");
}

}  // namespace

void check_trace_paths(const config::OutputConfig& output) {
  if (!output.trace.empty())
    io::check_output_path(output.trace,
                          {.overwrite = output.overwrite, .sealed = false, .key = "output.trace"});
  if (output.execution_trace.empty()) return;
  const std::string folder = folder_path(output.execution_trace).string();
  const fs::path present = fs::path(folder) / groups_file;
  if (fs::exists(present) && !output.overwrite)
    throw input_error(
        "exists already", present.string(),
        "Set output.overwrite=true to replace it, or give another name in output.execution_trace");
  if (fs::is_directory(folder)) return;
  if (fs::exists(folder))
    throw input_error("is no folder", folder, "Give the name of a folder in output.execution_trace");
  io::check_output_path(folder, {.overwrite = false, .sealed = false, .key = "output.execution_trace"});
}

void write_execution_traces(const parallel::Mesh& mesh, const std::string& folder, const StepTrace& trace,
                            const TraceNotes& notes) {
  const auto& world = mesh.world();
  const double origin = comm::minimum(world, trace.begin);
  const Groups groups(mesh);
  Graph graph(groups, origin);
  Timeline(trace, graph).build();

  comm::collective_guard(world, [&] {
    if (world.rank() == 0) make_folder(folder);
  });
  const json about = json::array({{{"name", "program"}, {"string_val", io::version_text()}},
                                  {{"name", "plan"}, {"string_val", notes.plan}},
                                  {{"name", "rank"}, {"int64_val", world.rank()}},
                                  {{"name", "ranks"}, {"int64_val", world.size()}},
                                  {{"name", "step"}, {"int64_val", trace.step}},
                                  {{"name", "clock_error_us"}, {"double_val", 1e6 * notes.clock_error}},
                                  {{"name", "injected"}, {"string_val", notes.injected}}});
  const json text{{"global_metadata", {{"version", schema_version}, {"attr", about}}},
                  {"nodes", graph.nodes()}};
  comm::collective_guard(world, [&] {
    io::write_text_file((fs::path(folder) / trace_file(world.rank())).string(), text.dump(1) + "\n");
  });

  // Each communicator is written by its lowest rank.
  std::string part = world.rank() == 0 ? "{" : "";
  for (const auto& member : groups.mine)
    if (*std::min_element(member.ranks.begin(), member.ranks.end()) == world.rank())
      part += fmt::format("{}\n\"{}\": {}", member.number == 0 ? "" : ",", member.number,
                          json(member.ranks).dump());
  if (world.rank() + 1 == world.size()) part += "\n}\n";
  io::write_parts(world, (fs::path(folder) / groups_file).string(), part);
}

}  // namespace minisp::bench
