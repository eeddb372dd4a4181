// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/plan_text.hpp"
#include "bench/predict.hpp"
#include "util/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <set>

namespace minisp::bench {

namespace {

using config::Sharding;
using config::System;
using perfmodel::Mapping;

struct Candidate {
  config::ParallelConfig parallel;
  Mapping mapping;
  parallel::Plan plan;
  double step = 0, exchange = 0, memory = 0;
  std::vector<std::string> notes;
};

/// Nothing where the numbers do not divide.
std::optional<parallel::Plan> plan_of_numbers(const PredictCase& one,
                                              const config::ParallelConfig& parallel) {
  const auto& c = one.config;
  try {
    return parallel::make_plan_outline(parallel, static_cast<int>(one.placement.ranks), c.model,
                                       c.train.batch, c.train.sequence_length);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Shard groups that MiCS may have: a sequence's, and a node's.
std::set<Index> shard_groups(const PredictCase& one, Index k) {
  std::set<Index> groups;
  for (const Index p : {k, one.placement.ranks_per_node})
    if (p > 1 && p < one.placement.ranks && one.placement.ranks % p == 0) groups.insert(p);
  return groups;
}

std::vector<config::ParallelConfig> shardings(const PredictCase& one, const config::ParallelConfig& parallel,
                                              Index k) {
  std::vector<config::ParallelConfig> list;
  for (const auto sharding : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    if (sharding != Sharding::none && one.placement.ranks == 1) continue;
    list.push_back(parallel);
    list.back().sharding = sharding;
    list.back().shard_ranks = 0;
  }
  for (const Index p : shard_groups(one, k)) {
    list.push_back(parallel);
    list.back().sharding = Sharding::mics;
    list.back().shard_ranks = p;
  }
  return list;
}

/// Every degree K divides the heads, so that few are to be tried whatever the number of ranks.
std::vector<Candidate> candidates(const perfmodel::Machine& machine, PredictCase one) {
  std::vector<Candidate> list;
  std::vector<Mapping> mappings = {Mapping::contiguous};
  if (one.placement.nodes() > 1 && one.placement.ranks_per_node > 1) mappings.push_back(Mapping::strided);
  for (Index k = 1; k <= std::min(one.placement.ranks, one.config.model.heads); ++k) {
    if (one.placement.ranks % k != 0) continue;
    config::ParallelConfig split = one.config.parallel;
    split.system = System::ulysses;
    split.sequence_degree = k;
    if (!plan_of_numbers(one, split)) continue;
    for (const auto& parallel : shardings(one, split, k))
      for (const auto mapping : mappings) {
        one.config.parallel = parallel;
        one.placement.mapping = mapping;
        Candidate candidate{parallel, mapping, *plan_of_numbers(one, parallel), 0, 0, 0, {}};
        const auto prediction = perfmodel::predict(machine, scenario_of(one, candidate.plan));
        candidate.step = prediction.step;
        candidate.exchange = prediction.all_to_all;
        candidate.notes = prediction.notes;
        candidate.memory = memory_of(one.config, candidate.plan);
        list.push_back(std::move(candidate));
      }
  }
  return list;
}

std::string system_of(const Candidate& candidate) {
  const auto& plan = candidate.plan;
  if (plan.sequence_degree == 1) return plan.ranks == 1 ? "single" : "data-parallel";
  if (plan.sequence_degree == plan.ranks) return "ulysses";
  return plan.ranks / plan.sequence_degree == plan.batch ? "basp" : "ulysses";
}

}  // namespace

void print_plans(std::ostream& out, const perfmodel::Machine& machine, const PredictCase& one) {
  auto list = candidates(machine, one);
  if (list.empty())
    throw input_error(
        fmt::format("case {}: no decomposition over {} ranks fits", one.name, one.placement.ranks),
        "command line: --plans", "Choose ranks that divide train.batch, or that share its sequences evenly");
  const double capacity = machine.memory_gib * double(1 << 30);
  const auto fits = [&](const Candidate& c) { return capacity == 0 || c.memory <= capacity; };
  std::stable_sort(list.begin(), list.end(), [&](const Candidate& a, const Candidate& b) {
    return fits(a) != fits(b) ? fits(a) : a.step < b.step;
  });
  out << fmt::format("\ncase     {}: {} decompositions over {} ranks, {} a node\n", one.name, list.size(),
                     one.placement.ranks, one.placement.ranks_per_node);
  out << fmt::format("{:<15} {:>6} {:>8} {:<10} {:<11} {:>12} {:>12} {:>12}\n", "system", "K", "groups",
                     "sharding", "mapping", "step, s", "exchange, s", "a rank");
  for (const auto& c : list) {
    const auto sharding = c.parallel.sharding == Sharding::mics
                              ? fmt::format("mics {}", c.plan.shard_ranks)
                              : std::string(config::to_string(c.parallel.sharding));
    out << fmt::format("{:<15} {:>6} {:>8} {:<10} {:<11} {:>12.4g} {:>12.4g} {:>12}{}\n", system_of(c),
                       c.plan.sequence_degree, c.plan.ranks / c.plan.sequence_degree, sharding,
                       c.mapping == Mapping::strided ? "strided" : "contiguous", c.step, c.exchange,
                       bytes_text(c.memory),
                       fits(c) ? "" : fmt::format("  does not fit in {:g} GiB", machine.memory_gib));
  }
  if (capacity == 0)
    out << "NOTE: the machine file does not say how much memory a rank has (memory_gib = 0)\n";
  std::set<std::string> notes;
  for (const auto& c : list) notes.insert(c.notes.begin(), c.notes.end());
  for (const auto& note : notes) out << "NOTE: " << note << "\n";
  const auto& best = list.front();
  if (!fits(best)) {
    out << "BEST: none fits in memory\n";
    return;
  }
  out << fmt::format("BEST: {} with K = {}, sharding {}\n", system_of(best), best.plan.sequence_degree,
                     config::to_string(best.parallel.sharding));
}

}  // namespace minisp::bench
