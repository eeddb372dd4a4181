// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Traces of a step, as a viewer and a simulator read them.
#include "bench/commands.hpp"
#include "comm/scalars.hpp"
#include "io/parts_file.hpp"
#include "util/error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <unistd.h>

namespace minisp::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int layers = 2, heads = 8, head_dim = 4, sequence_length = 32, batch = 4;
constexpr const char* deck = R"([model]
preset = "llama-3.2-1b"
hidden = 32
intermediate = 48
layers = 2
heads = 8
kv_heads = 8
head_dim = 4
vocabulary = 64
[data]
symbols = 32
[train]
batch = 4
sequence_length = 32
steps = 2
warmup_steps = 1
[parallel]
system = "ulysses"
[verify]
enabled = false
)";

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A folder that all ranks know, gone with the object.
class Folder {
 public:
  explicit Folder(const comm::Communicator& world) : world_(world) {
    const auto number = comm::maximum(world, static_cast<Index>(world.rank() == 0 ? getpid() : 0));
    path_ = fs::temp_directory_path() / ("minisp_trace_" + std::to_string(number));
    if (world.rank() == 0) {
      fs::create_directory(path_);
      std::ofstream(path_ / "deck.toml") << deck;
    }
    comm::barrier(world);
  }
  ~Folder() {
    comm::barrier(world_);
    if (world_.rank() == 0) fs::remove_all(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  const comm::Communicator& world_;
  fs::path path_;
};

struct Slice {
  std::string name, category;
  double begin = 0, end = 0;
  json args;
};

/// Slices by rank and name of the track, in the order of the file.
using Tracks = std::map<std::pair<int, std::string>, std::vector<Slice>>;

/// Every process and every track has its name before its first slice. Threads have numbers that no other
/// thread or process has, and none is 0: what Perfetto makes of others.
Tracks tracks_of(const json& trace) {
  Tracks tracks;
  std::map<int, std::string> processes, threads;
  std::map<int, int> process_of_thread;
  for (const auto& event : trace.at("traceEvents")) {
    const int process = event.at("pid"), thread = event.at("tid");
    EXPECT_EQ(process_of_thread.emplace(thread, process).first->second, process);
    if (event.at("name") == "process_name") processes[process] = event.at("args").at("name");
    if (event.at("name") == "thread_name") threads[thread] = event.at("args").at("name");
    if (event.at("ph") != "X") continue;
    EXPECT_EQ(processes[process].rfind("rank " + std::to_string(process) + " on ", 0), 0u);
    const double begin = event.at("ts"), duration = event.at("dur");
    EXPECT_GE(begin, 0);
    EXPECT_GT(duration, 0);
    tracks[{process, threads[thread]}].push_back(
        {event.at("name"), event.at("cat"), begin, begin + duration, event.at("args")});
  }
  EXPECT_EQ(process_of_thread.count(0), 0u);
  for (const auto& [process, name] : processes) EXPECT_EQ(process_of_thread.count(process), 0u) << name;
  return tracks;
}

constexpr double rounding = 0.002;  // microseconds: times are whole nanoseconds

/// Two slices of a track lie apart or one in the other: what viewers of such files ask for.
void expect_nested(std::vector<Slice> track) {
  std::stable_sort(track.begin(), track.end(), [](const Slice& a, const Slice& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<Slice> open;
  for (const auto& slice : track) {
    while (!open.empty() && open.back().end <= slice.begin + rounding) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(slice.end, open.back().end + rounding) << slice.name << " in " << open.back().name;
    }
    open.push_back(slice);
  }
}

class Trace : public testing::Test {
 protected:
  const comm::Communicator world = comm::Communicator::world();
  const int ranks = world.size();
  const Folder folder{world};

  ExitCode run(std::vector<std::string> overrides) const {
    overrides.push_back("output.trace=" + (folder / "trace.json").string());
    overrides.push_back("output.execution_trace=" + (folder / "traces").string());
    RunOptions options;
    options.deck = (folder / "deck.toml").string();
    options.overrides = std::move(overrides);
    options.command_line = {"minisp", "run"};
    const auto code = run_command(world, options);
    comm::barrier(world);
    return code;
  }
  json chrome() const { return json::parse(text_of(folder / "trace.json")); }
  json groups() const { return json::parse(text_of(folder / "traces/comm_groups.json")); }
  json nodes(int rank) const {
    return json::parse(text_of(folder / ("traces/et." + std::to_string(rank) + ".json"))).at("nodes");
  }
};

TEST_F(Trace, PhasesNestAndAddUpToTheStep) {
  run({});
  const auto trace = chrome();
  EXPECT_EQ(trace.at("otherData").at("step"), 2);  // the last one
  auto tracks = tracks_of(trace);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& phases = tracks[{rank, "phases"}];
    expect_nested(phases);
    ASSERT_FALSE(phases.empty());
    const Slice& step = phases.front();
    EXPECT_EQ(step.name, "step 2");
    double sum = 0;
    for (std::size_t i = 1; i < phases.size(); ++i) {
      EXPECT_GE(phases[i].begin, step.begin - rounding);
      EXPECT_LE(phases[i].end, step.end + rounding);
      if (phases[i].args.at("depth") == 0) sum += phases[i].end - phases[i].begin;
    }
    EXPECT_LE(sum, step.end - step.begin + rounding);
    // A rank that loses its core between two phases is the machine's doing: half is far from nothing missed.
    EXPECT_GE(sum, 0.5 * (step.end - step.begin));
    for (const char* name : {"data", "mlp", "attention forward", "attention backward", "optimizer"})
      EXPECT_TRUE(std::any_of(phases.begin(), phases.end(), [&](const Slice& s) { return s.name == name; }))
          << name;
  }
}

TEST_F(Trace, CollectivesHaveTheirBytesAndParts) {
  run({});
  auto tracks = tracks_of(chrome());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& track = tracks[{rank, "collectives"}];
    expect_nested(track);
    Index exchanges = 0, bytes = 0;
    for (const auto& slice : track) {
      if (slice.category != "collective") continue;
      const auto& args = slice.args;
      EXPECT_EQ(args.at("ranks"), ranks);
      const double parts = args.at("own_us").get<double>() + args.at("wait_us").get<double>() +
                           args.at("wire_us").get<double>();
      EXPECT_NEAR(parts, slice.end - slice.begin, 0.02 * (slice.end - slice.begin) + 2) << slice.name;
      if (slice.name.rfind("all_to_all", 0) != 0) continue;
      ++exchanges;
      bytes += args.at("bytes_on_node").get<Index>() + args.at("bytes_off_node").get<Index>();
    }
    EXPECT_EQ(exchanges, ranks > 1 ? 4 * layers : 0);
    // 4 e T (H + kv d) (K-1)/K a layer
    const Index tokens = batch * sequence_length / ranks;
    EXPECT_EQ(bytes, layers * 4 * 4 * tokens * (2 * heads * head_dim) * (ranks - 1) / ranks);
  }
}

/// Program order, dependencies on earlier nodes alone, and the same collectives in the same order on every
/// rank of a group: else a simulator hangs.
TEST_F(Trace, ExecutionTracesFitTogether) {
  run({"parallel.system=basp", "train.batch=2", "parallel.sharding=zero3"});
  const auto all_groups = groups();
  std::map<std::string, std::string> sequence_of_group;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto graph = nodes(rank);
    std::map<std::string, std::string> mine;
    double end = 0;
    for (std::size_t id = 0; id < graph.size(); ++id) {
      const auto& node = graph[id];
      EXPECT_EQ(node.at("id"), id);
      for (const auto& dependency : node.at("data_deps")) EXPECT_LT(dependency.get<std::size_t>(), id);
      if (id > 0) {
        EXPECT_FALSE(node.at("data_deps").empty());
      }
      end = std::max(end,
                     node.at("start_time_micros").get<double>() + node.at("duration_micros").get<double>());
      std::map<std::string, json> attributes;
      for (const auto& attribute : node.at("attr")) attributes[attribute.at("name")] = attribute;
      EXPECT_TRUE(attributes.at("is_cpu_op").contains("bool_val"));
      if (node.at("type") == "COMP_NODE") continue;
      EXPECT_EQ(node.at("type"), "COMM_COLL_NODE");
      const std::string group = attributes.at("pg_name").at("string_val");
      const auto members = all_groups.at(group).get<std::vector<int>>();
      EXPECT_TRUE(std::find(members.begin(), members.end(), rank) != members.end());
      mine[group] += node.at("name").get<std::string>() + "/" +
                     std::to_string(attributes.at("comm_type").at("int64_val").get<int>()) + "/" +
                     std::to_string(attributes.at("comm_size").at("int64_val").get<Index>()) + "\n";
    }
    EXPECT_GT(end, 0);
    for (const auto& [group, collectives] : mine) {
      const auto [known, is_new] = sequence_of_group.emplace(group, collectives);
      if (!is_new) {
        EXPECT_EQ(known->second, collectives);
      }
    }
  }
}

/// Weights that are gathered ahead: what follows the start does not depend on it, what follows the wait does.
TEST_F(Trace, StartedCollectivesOverlap) {
  if (ranks == 1) GTEST_SKIP() << "nothing is gathered";
  run({"parallel.sharding=zero3"});
  auto tracks = tracks_of(chrome());
  Index started = 0, ended = 0;
  for (const auto& slice : tracks[{0, "collectives"}]) {
    expect_nested(tracks[{0, "collectives"}]);
    started += slice.name.rfind("start of all_gather", 0) == 0 ? 1 : 0;
    ended += slice.name.rfind("end of all_gather", 0) == 0 ? 1 : 0;
  }
  EXPECT_GT(started, 0);
  EXPECT_EQ(started, ended);
  const auto graph = nodes(0);
  Index joins = 0;
  for (const auto& node : graph) joins += node.at("data_deps").size() > 1 ? 1 : 0;
  EXPECT_GT(joins, 0);
}

TEST_F(Trace, WhatIsThereIsNotLost) {
  run({});
  const auto before = text_of(folder / "trace.json");
  EXPECT_THROW(run({}), Error);
  EXPECT_EQ(text_of(folder / "trace.json"), before);
  run({"output.overwrite=true"});
  EXPECT_FALSE(fs::exists(folder / "trace.json.partial"));
}

TEST_F(Trace, PartsFollowEachOther) {
  // Longer than a piece, and of different lengths.
  const std::string part(static_cast<std::size_t>(world.rank()) * 700000,
                         static_cast<char>('a' + world.rank()));
  const auto path = (folder / "parts").string();
  io::write_parts(world, path, part);
  std::string expected;
  for (int rank = 0; rank < ranks; ++rank)
    expected += std::string(static_cast<std::size_t>(rank) * 700000, static_cast<char>('a' + rank));
  EXPECT_TRUE(text_of(path) == expected);
  EXPECT_THROW(io::write_parts(world, (folder / "no_such_folder/a").string(), part), Error);
}

}  // namespace
}  // namespace minisp::bench
