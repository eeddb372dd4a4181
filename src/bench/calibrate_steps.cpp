// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/calibrate.hpp"
#include "bench/run.hpp"
#include "config/deck.hpp"
#include "train/figure_of_merit.hpp"

#include <fmt/format.h>

#include <iostream>
#include <map>
#include <numeric>

namespace minisp::bench {

namespace {

using perfmodel::StepSample;

struct Shape {
  Index hidden, intermediate, head_dim, vocabulary, layers;
};

/// Heads that K = N ranks can share, with a quarter as many K/V heads where these can be shared too.
std::pair<Index, Index> heads_for(Index ranks) {
  const Index heads = ranks * std::max<Index>(1, (32 + ranks - 1) / ranks);
  const Index kv = heads / 4;
  const bool shared = heads % 4 == 0 && (kv % ranks == 0 || ranks % kv == 0);
  return {heads, shared ? kv : heads};
}

Probe probe_of(int ranks, config::Precision precision, const std::string& system, Index batch, Index length,
               const Shape& shape, const std::string& more = "") {
  const auto [heads, kv] = heads_for(ranks);
  const auto name = fmt::format("{}{}_B{}_S{}_H{}_d{}", system, more.empty() ? "" : "_zero3", batch, length,
                                shape.hidden, shape.head_dim);
  const auto text = fmt::format(
      "model.preset = \"llama-3.2-1b\"\nmodel.hidden = {}\nmodel.intermediate = {}\nmodel.head_dim = {}\n"
      "model.vocabulary = {}\nmodel.layers = {}\nmodel.heads = {}\nmodel.kv_heads = {}\n"
      "train.batch = {}\ntrain.sequence_length = {}\ntrain.precision = \"{}\"\ntrain.steps = 2\n"
      "train.warmup_steps = 1\nverify.enabled = false\nparallel.system = \"{}\"\n{}",
      shape.hidden, shape.intermediate, shape.head_dim, shape.vocabulary, shape.layers, heads, kv, batch,
      length, config::to_string(precision), system, more);
  return {name, config::parse_config(text, "calibrate " + name)};
}

/// The phase of the timers that a line of the ledger belongs to.
std::string phase_of(const std::string& label) {
  if (label == "token count") return "data";
  if (label == "loss") return "loss_reduction";
  if (label == "gradient norm") return "gradient_norm";
  return label;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

using ByPhase = std::map<std::string, std::vector<double>>;  // one entry a round

struct Rounds {
  ByPhase own, collectives;
  std::vector<double> steps;
};

void add_round(const io::RunResult& result, Rounds& rounds) {
  const auto& seconds = result.metrics.seconds;
  const auto first = seconds.begin() + result.metrics.warmup_steps;
  const double count = static_cast<double>(seconds.end() - first);
  rounds.steps.push_back(std::accumulate(first, seconds.end(), 0.0) / count);
  std::map<std::string, double> sent;
  for (const auto& row : result.traffic)
    sent[phase_of(row.phase)] += (mean(row.wait) + mean(row.wire)) / count;
  for (const auto& phase : result.phases) {
    const double all = mean(phase.seconds) / count;
    const bool sends = sent.count(phase.name) > 0 && result.provenance.ranks > 1;
    rounds.own[phase.name].push_back(std::max(0.0, sends ? all - sent[phase.name] : all));
    if (sends) rounds.collectives[phase.name].push_back(sent[phase.name]);
  }
}

}  // namespace

std::vector<Probe> probes(int ranks, config::Precision precision, bool quick) {
  const Index n = ranks;
  const auto make = [&](const char* system, Index batch, Index length, const Shape& shape,
                        const char* more = "") {
    return probe_of(ranks, precision, system, batch, length, shape, more);
  };
  // Sequences of two groups are as long as one group's, a multiple of the ranks.
  const auto length = [&](Index about) { return (about + n - 1) / n * n; };
  if (quick) {
    const Shape small{128, 256, 8, 512, 1}, narrow{64, 128, 16, 256, 1};
    std::vector<Probe> list = {make("data-parallel", n, length(64), small),
                               make("data-parallel", n, length(256), small),
                               make("data-parallel", n, length(128), narrow)};
    if (ranks == 1) return list;
    list.push_back(make("ulysses", 2, length(256), small));
    list.push_back(make("ulysses", 1, length(512), narrow, "parallel.sharding = \"zero3\"\n"));
    if (ranks % 2 == 0 && ranks > 2) list.push_back(make("basp", 2, length(256), small));
    return list;
  }
  const Shape narrow{128, 64, 4, 128, 1}, medium{192, 128, 6, 128, 1}, square{256, 256, 8, 256, 1},
      wide{512, 512, 16, 512, 1}, tall{256, 1024, 32, 2048, 1}, three{128, 256, 16, 512, 3};
  std::vector<Probe> list = {
      make("data-parallel", n, length(2048), narrow), make("data-parallel", n, length(512), square),
      make("data-parallel", n, length(512), wide),    make("data-parallel", n, length(256), tall),
      make("data-parallel", n, length(1024), medium), make("data-parallel", n, length(64), square)};
  if (ranks == 1) return list;
  list.push_back(make("ulysses", 1, length(4096), narrow));
  list.push_back(make("ulysses", 2, length(1536), square));
  list.push_back(make("ulysses", 2, length(512), medium));
  list.push_back(make("ulysses", 4, length(1536), wide));
  list.push_back(make("ulysses", 2, length(3584), medium));
  list.push_back(make("ulysses", 2, length(128), square));
  list.push_back(make("ulysses", 2, length(1024), three, "parallel.sharding = \"zero3\"\n"));
  if (ranks % 2 != 0 || ranks == 2) return list;
  list.push_back(make("basp", 2, length(3584), square));
  list.push_back(make("basp", 2, length(2048), medium));
  list.push_back(make("basp", 2, length(512), narrow));
  return list;
}

std::vector<StepSample> measure_steps(const comm::Communicator& world, const std::vector<Probe>& probes,
                                      const perfmodel::Placement& placement, Index rounds) {
  std::vector<Rounds> measured(probes.size());
  for (Index round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < probes.size(); ++i) {
      io::RunResult result;
      RunOptions options{.quiet = true, .result = &result};
      run_config(world, probes[i].config, plan_of(probes[i].config, world.size()), options);
      add_round(result, measured[i]);
      if (world.rank() == 0)
        std::cout << fmt::format("round {}/{}  {}  {:.4g} s a step\n", round + 1, rounds, probes[i].name,
                                 measured[i].steps.back())
                  << std::flush;
    }
  std::vector<StepSample> samples;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const auto plan = plan_of(probes[i].config, world.size());
    const perfmodel::Decomposition d{plan.ranks, plan.sequence_degree, plan.sharding, plan.shard_ranks};
    StepSample sample{probes[i].name,
                      perfmodel::equal_lengths(probes[i].config, d, placement),
                      {},
                      {},
                      train::median(measured[i].steps)};
    for (const auto& [phase, seconds] : measured[i].own) sample.own[phase] = train::median(seconds);
    for (const auto& [phase, seconds] : measured[i].collectives)
      sample.collectives[phase] = train::median(seconds);
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace minisp::bench
