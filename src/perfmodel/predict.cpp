// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "perfmodel/predict.hpp"

#include "util/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace minisp::perfmodel {

namespace {

struct Timeline {
  std::vector<PhaseSeconds> phases;

  std::size_t index(const std::string& name) {
    std::size_t i = 0;
    while (i < phases.size() && phases[i].name != name) ++i;
    if (i == phases.size()) phases.push_back({.name = name});
    return i;
  }
  PhaseSeconds& operator[](const std::string& name) { return phases[index(name)]; }
  double total() const {
    double sum = 0;
    for (const auto& phase : phases) sum += phase.total();
    return sum;
  }
};

using PeersOfScopes = std::array<Peers, 4>;

PeersOfScopes peers_of(const Scenario& s) {
  const auto& d = s.decomposition;
  return {consecutive_groups(s.placement, d.ranks), consecutive_groups(s.placement, d.sequence_degree),
          consecutive_groups(s.placement, d.shard_ranks), strided_groups(s.placement, d.shard_ranks)};
}

/// What a rank computes from one collective to the next.
class Segment {
 public:
  void add(std::size_t phase, double seconds) {
    parts_.push_back({phase, seconds});
    alone_ += seconds;
  }
  /// The ranks leave a collective that took `seconds` over links, and begin to compute.
  void begin(const Machine& machine, double seconds) { late_ = machine.skew.share_of_wire * seconds; }
  struct Times {
    double own = 0, wait = 0;
  };
  /// Books the segment's own times; the mean rank then waits for the last of `ranks`.
  Times close(const Machine& machine, Index ranks, Timeline& line) {
    const double n = machine.share.ranks_per_core, turn = machine.share.seconds_per_turn;
    const double factor = alone_ > 0 ? 1 + (n - 1) * alone_ / (alone_ + turn) : 1;
    for (const auto& [phase, seconds] : parts_) line.phases[phase].own += factor * seconds;
    // The last one to begin has the core for itself while the others have done already.
    const double late = std::max(0.0, late_ - (n - 1) * alone_);
    const Times times{
        factor * alone_,
        ranks == 1 ? 0 : (n - factor) * alone_ + skew_seconds(machine.skew, ranks, n * alone_) + late};
    late_ = 0;
    parts_.clear();
    alone_ = 0;
    return times;
  }

 private:
  std::vector<std::pair<std::size_t, double>> parts_;
  double alone_ = 0, late_ = 0;
};

Timeline timeline_of(const Machine& machine, const Scenario& s, const PeersOfScopes& scopes,
                     const std::vector<Event>& events) {
  Timeline line;
  Segment segment;
  Bucket bucket(machine.link_burst_bytes, machine.all_to_all.bytes_per_s_off_node);
  std::string first_collective;
  for (const auto& event : events) {
    const std::size_t phase = line.index(event.phase);
    if (event.computes) {
      segment.add(phase, work_seconds(machine.rates(s.config.train.precision, event.phase), event.work));
      continue;
    }
    const Peers& peers = scopes[static_cast<std::size_t>(event.scope)];
    if (peers.group_ranks == 1) continue;
    if (first_collective.empty()) first_collective = event.phase;
    const auto& rates = event.collective == Collective::all_to_all ? machine.all_to_all : machine.all_gather;
    const CollectiveCall call{event.collective, peers, event.bytes_per_peer, machine.links_per_node};
    const double together = wire_seconds(rates, call);
    if (event.prefetched) {  // nobody waits where it is started
      line.phases[phase].wire += machine.exposed_gathers * event.calls * together;
      continue;
    }
    const auto [own, wait] = segment.close(machine, peers.group_ranks, line);
    bucket.rest(own + wait);
    const double burst = bucket.take(bytes_of_link(call));
    const double first = wire_seconds(rates, call, burst), last = last_wire_seconds(rates, call);
    // What early ranks send moves before the last one is there.
    line.phases[phase].wait += wait;
    line.phases[phase].wire += std::max(first - wait, std::min(first, last)) + (event.calls - 1) * together;
    if (peers.node_sends > 0) segment.begin(machine, first);
  }
  // What is computed last is waited for in the next step, where ranks meet first.
  const double wait = segment.close(machine, s.decomposition.ranks, line).wait;
  if (!first_collective.empty()) line.phases[line.index(first_collective)].wait += wait;
  return line;
}

void note_range(const Machine& machine, const std::string& name, double least, double most,
                std::vector<std::string>& notes) {
  const auto range = machine.ranges.find(name);
  if (range == machine.ranges.end()) return;
  // Ranges are printed with ten digits.
  const auto outside = [&](double value) {
    return value < range->second.least * (1 - 1e-9) || value > range->second.most * (1 + 1e-9);
  };
  for (const double value : {least, most}) {
    if (!outside(value)) continue;
    notes.push_back(fmt::format("extrapolates: {} = {:g}, where machine '{}' knows {:g} to {:g}", name, value,
                                machine.name, range->second.least, range->second.most));
    if (least == most) break;
  }
}

std::vector<std::string> notes_of(const Machine& machine, const Scenario& s, const PeersOfScopes& scopes,
                                  const std::vector<std::vector<Event>>& events_of_groups) {
  std::vector<std::string> notes;
  if (machine.origin == "data sheet")
    notes.push_back("machine '" + machine.name +
                    "' is made of data sheets and assumptions: nothing was measured on it");
  const auto& m = s.config.model;
  const auto note = [&](const char* name, double value) { note_range(machine, name, value, value, notes); };
  note("ranks", double(s.decomposition.ranks));
  note("ranks_per_node", double(s.placement.ranks_per_node));
  double tokens_least = no_limit, tokens_most = 0;
  for (const auto& group : s.groups) {
    tokens_least = std::min(tokens_least, group.load.tokens / double(s.decomposition.sequence_degree));
    tokens_most = std::max(tokens_most, group.load.tokens / double(s.decomposition.sequence_degree));
  }
  note_range(machine, "tokens_a_rank", tokens_least, tokens_most, notes);
  note("sequence_length", double(s.config.train.sequence_length));
  note("hidden", double(m.hidden));
  note("head_dim", double(m.head_dim));
  note("intermediate", double(m.intermediate));
  note("vocabulary", double(m.vocabulary));
  double ranks_least = no_limit, ranks_most = 0, bytes_least = no_limit, bytes_most = 0;
  for (const auto& events : events_of_groups)
    for (const auto& event : events) {
      const double ranks = double(scopes[static_cast<std::size_t>(event.scope)].group_ranks);
      if (event.computes || ranks < 2) continue;
      ranks_least = std::min(ranks_least, ranks);
      ranks_most = std::max(ranks_most, ranks);
      bytes_least = std::min(bytes_least, event.bytes_per_peer);
      bytes_most = std::max(bytes_most, event.bytes_per_peer);
    }
  if (ranks_most == 0) return notes;
  note_range(machine, "group_ranks", ranks_least, ranks_most, notes);
  note_range(machine, "bytes_per_peer", bytes_least, bytes_most, notes);
  return notes;
}

}  // namespace

double work_seconds(const PhaseRates& rates, const Work& work) {
  return work.calls * rates.seconds_per_call + work.flops / rates.flops_per_s +
         work.bytes / rates.bytes_per_s + work.exponentials / rates.exponentials_per_s;
}

Scenario equal_lengths(const config::Config& config, const Decomposition& d, const Placement& placement) {
  const double groups = double(d.ranks / d.sequence_degree);
  const double sequences = double(config.train.batch) / groups;
  return {
      config, d, placement, {{group_load(config, sequences, double(config.train.sequence_length)), groups}}};
}

Scenario unequal_lengths(const config::Config& config, const Decomposition& d, const Placement& placement,
                         const std::vector<LengthRun>& runs, const std::string& where) {
  Index sequences = 0;
  for (const auto& run : runs) sequences += run.sequences;
  if (sequences != config.train.batch)
    throw input_error(fmt::format("holds {} lengths, and train.batch = {}", sequences, config.train.batch),
                      where, fmt::format("Set train.batch={}, or give as many lengths", sequences));
  Scenario scenario{config, d, placement, {}};
  const Index share = sequences / (d.ranks / d.sequence_degree);  // sequences of a group
  GroupClass open;                                                // a group that spans runs
  Index wanted = share;                                           // sequences that it still lacks
  for (auto run : runs) {
    const auto take = [&](Index count) {
      const auto load = group_load(config, double(count), run.length);
      open.load.tokens += load.tokens;
      open.load.visible_pairs += load.visible_pairs;
      wanted -= count;
      run.sequences -= count;
      if (wanted > 0) return;
      open.groups = 1;
      scenario.groups.push_back(open);
      open = {};
      wanted = share;
    };
    if (wanted < share) take(std::min(wanted, run.sequences));
    if (const Index whole = run.sequences / share; whole > 0) {
      scenario.groups.push_back({group_load(config, double(share), run.length), double(whole)});
      run.sequences -= whole * share;
    }
    if (run.sequences > 0) take(run.sequences);
  }
  return scenario;
}

double Prediction::seconds(const std::string& phase) const {
  for (const auto& one : phases)
    if (one.name == phase) return one.total();
  return 0;
}

Prepared::Prepared(Scenario scenario) : scenario_(std::move(scenario)), scopes_(peers_of(scenario_)) {
  for (const auto& group : scenario_.groups)
    events_.push_back(step_of(scenario_.config, scenario_.decomposition, group.load));
}

Prediction Prepared::on(const Machine& machine) const {
  Timeline mean;
  double slowest = 0, groups = 0;
  for (const auto& group : scenario_.groups) groups += group.groups;
  for (std::size_t i = 0; i < scenario_.groups.size(); ++i) {
    const auto& group = scenario_.groups[i];
    const Timeline line = timeline_of(machine, scenario_, scopes_, events_[i]);
    slowest = std::max(slowest, line.total());
    for (const auto& phase : line.phases) {
      PhaseSeconds& sum = mean[phase.name];
      sum.own += phase.own * group.groups / groups;
      sum.wait += phase.wait * group.groups / groups;
      sum.wire += phase.wire * group.groups / groups;
    }
  }
  // Groups with less to do wait for the slowest where all ranks meet first: at the sum of the gradients.
  if (scenario_.groups.size() > 1) mean["reduce gradients"].wait += slowest - mean.total();
  Prediction prediction;
  std::erase_if(mean.phases, [](const PhaseSeconds& phase) { return phase.total() == 0; });
  prediction.phases = std::move(mean.phases);
  for (const auto& phase : prediction.phases) {
    prediction.step += phase.total();
    if (phase.name.starts_with("exchange")) prediction.all_to_all += phase.total();
  }
  prediction.step *= machine.slowest_over_mean;
  prediction.notes = notes_of(machine, scenario_, scopes_, events_);
  return prediction;
}

}  // namespace minisp::perfmodel
