// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Chrome's trace event format ("JSON object format" with complete events): microseconds, a pid a rank.
#include "bench/trace_files.hpp"
#include "comm/scalars.hpp"
#include "io/parts_file.hpp"
#include "io/provenance.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace minisp::bench {

namespace {

using nlohmann::json;

enum Track { phases = 0, collectives = 1 };

/// The text of one rank's events. Perfetto takes thread 0, and a thread with the number of its process, for
/// the process's main thread, and knows threads by their number alone in places: tracks have numbers of their
/// own, beyond those of all ranks.
class Events {
 public:
  Events(int rank, int ranks, double origin)
      : rank_(rank), first_thread_(ranks + 2 * rank + 1), origin_(origin) {}

  void meta(const char* what, const json& args, Track track = phases) {
    add({{"ph", "M"}, {"name", what}, {"pid", rank_}, {"tid", first_thread_ + track}, {"args", args}});
  }
  void slice(Track track, const std::string& name, const char* category, const Interval& interval,
             json args = json::object()) {
    const auto begin = nanoseconds(interval.begin), end = nanoseconds(interval.end);
    if (end <= begin) return;
    add({{"ph", "X"},
         {"name", name},
         {"cat", category},
         {"pid", rank_},
         {"tid", first_thread_ + track},
         {"ts", 1e-3 * static_cast<double>(begin)},
         {"dur", 1e-3 * static_cast<double>(end - begin)},
         {"args", std::move(args)}});
  }
  const std::string& text() const { return text_; }

 private:
  void add(const json& event) {
    if (rank_ > 0 || !text_.empty()) text_ += ",\n";
    text_ += event.dump();
  }
  long long nanoseconds(double seconds) const { return std::llround(1e9 * (seconds - origin_)); }

  int rank_, first_thread_;
  double origin_;
  std::string text_;
};

struct Parts {
  double wait = 0, wire = 0;
};

/// The stretches of a transfer in [interval], before and after the last arrival, as slices.
Parts add_stretch(Events& events, const TracedTransfer& transfer, const Interval& interval) {
  const double middle = std::clamp(transfer.last_arrival, interval.begin, interval.end);
  events.slice(collectives, "wait", "wait", {interval.begin, middle}, {{"last_rank", transfer.last_rank}});
  events.slice(collectives, "wire", "wire", {middle, interval.end});
  return {middle - interval.begin, interval.end - middle};
}

json describe(const TracedCall& call) {
  Parts sum;
  double transfers = 0;
  int last_rank = -1;
  for (const auto& transfer : call.transfers) {
    transfers += transfer.seconds();
    for (const Interval& interval : {static_cast<const Interval&>(transfer), transfer.later}) {
      const double middle = std::clamp(transfer.last_arrival, interval.begin, interval.end);
      sum.wait += middle - interval.begin;
      sum.wire += interval.end - middle;
    }
    last_rank = transfer.last_rank;
  }
  return {{"communicator", call.communicator},
          {"ranks", call.ranks},
          {"bytes_on_node", call.bytes_on_node},
          {"bytes_off_node", call.bytes_off_node},
          {"own_us", 1e6 * std::max(0.0, call.seconds() - transfers)},
          {"wait_us", 1e6 * sum.wait},
          {"wire_us", 1e6 * sum.wire},
          {"last_rank", last_rank}};
}

void add_call(Events& events, const TracedCall& call) {
  const bool started = std::any_of(call.transfers.begin(), call.transfers.end(),
                                   [](const TracedTransfer& transfer) { return transfer.started(); });
  const auto name = call.collective + ", " + call.phase;
  events.slice(collectives, started ? "start of " + name : name, "collective", call, describe(call));
  for (const auto& transfer : call.transfers) {
    add_stretch(events, transfer, transfer);
    if (!transfer.started()) continue;
    events.slice(collectives, "end of " + name, "collective", transfer.later, describe(call));
    add_stretch(events, transfer, transfer.later);
  }
}

}  // namespace

void write_chrome_trace(const parallel::Mesh& mesh, const std::string& path, const StepTrace& trace,
                        const TraceNotes& notes) {
  const auto& world = mesh.world();
  const double origin = comm::minimum(world, trace.begin);
  const auto node = static_cast<std::size_t>(world.nodes()[static_cast<std::size_t>(world.rank())]);
  Events events(world.rank(), world.size(), origin);
  events.meta("process_name",
              {{"name", fmt::format("rank {} on {}", world.rank(), world.topology().host_of_node[node])}});
  events.meta("process_sort_index", {{"sort_index", world.rank()}});
  events.meta("thread_name", {{"name", "phases"}}, phases);
  events.meta("thread_name", {{"name", "collectives"}}, collectives);
  events.slice(phases, fmt::format("step {}", trace.step), "step", trace);
  for (const auto& phase : trace.phases)
    events.slice(phases, phase.name, "phase", phase, {{"depth", phase.depth}});
  for (const auto& call : trace.calls) add_call(events, call);

  std::string part = events.text();
  if (world.rank() == 0) {
    const json about{{"program", io::version_text()},
                     {"plan", notes.plan},
                     {"step", trace.step},
                     {"clock_error_us", 1e6 * notes.clock_error},
                     {"injected", notes.injected}};
    part = "{\"displayTimeUnit\": \"ms\",\n\"otherData\": " + about.dump() + ",\n\"traceEvents\": [\n" + part;
  }
  if (world.rank() + 1 == world.size()) part += "\n]}\n";
  io::write_parts(world, path, part);
}

}  // namespace minisp::bench
