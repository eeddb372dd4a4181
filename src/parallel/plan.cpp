// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/plan.hpp"

#include "util/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

namespace minisp::parallel {

namespace {

using config::System;

/// What a plan is made of, and which degrees and batches would fit in place of the ones that do not.
struct Request {
  const config::ParallelConfig& config;
  const config::Architecture& model;
  Index ranks, batch, length;

  bool kv_heads_fit(Index k) const { return model.kv_heads % k == 0 || k % model.kv_heads == 0; }
  bool degree_fits(Index k) const {
    return k == 1 || (length % k == 0 && model.heads % k == 0 && kv_heads_fit(k));
  }

  std::vector<Index> divisors(Index n) const {
    std::vector<Index> found;
    for (Index i = 1; i <= n; ++i)
      if (n % i == 0) found.push_back(i);
    return found;
  }
  /// Sequence degrees that Ulysses can have with these ranks and this batch.
  std::vector<Index> degrees() const {
    std::vector<Index> fitting;
    for (const Index k : divisors(ranks))
      if (batch % (ranks / k) == 0 && degree_fits(k)) fitting.push_back(k);
    return fitting;
  }
  /// Batches up to the number of ranks that BASP can have.
  std::vector<Index> batches() const {
    std::vector<Index> fitting;
    for (const Index b : divisors(ranks))
      if (degree_fits(ranks / b)) fitting.push_back(b);
    return fitting;
  }
};

std::string list(const std::vector<Index>& values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

/// The multiples of `step` around `value`.
std::string nearest_multiples(Index value, Index step) {
  const Index below = value / step * step;
  return below > 0 ? fmt::format("{} or {}", below, below + step) : fmt::format("{}", step);
}

/// What fits in place of the sequence degree of this plan, one sentence.
std::string other_degrees(const Request& request) {
  if (request.config.system == System::basp)
    return fmt::format("With {} ranks train.batch can be {} or a multiple of {}", request.ranks,
                       list(request.batches()), request.ranks);
  const auto fitting = request.degrees();
  if (fitting.empty())
    return fmt::format("With {} ranks and this batch no sequence degree fits", request.ranks);
  return fmt::format("With {} ranks and this batch parallel.sequence_degree can be {}", request.ranks,
                     list(fitting));
}

void check_degree(const Request& request, Index k) {
  if (k == 1) return;
  const auto& model = request.model;
  const auto refuse = [&](const std::string& key, Index value, const std::string& why,
                          const std::string& fits) {
    return input_error(fmt::format("{} = {} {} of a group (sequence degree {})", key, value, why, k),
                       "parallel.system = " + std::string(to_string(request.config.system)),
                       fmt::format("{} would fit. {}", fits, other_degrees(request)));
  };
  if (request.length % k != 0)
    throw refuse("train.sequence_length", request.length, "cannot be shared evenly by the ranks",
                 nearest_multiples(request.length, k));
  if (model.heads % k != 0)
    throw refuse("model.heads", model.heads, "cannot be shared evenly by the ranks",
                 nearest_multiples(model.heads, k));
  if (!request.kv_heads_fit(k))
    throw refuse("model.kv_heads", model.kv_heads, "neither divides the ranks nor is divided by the ranks",
                 list(request.divisors(k)) + fmt::format(" or a multiple of {}", k));
}

void check_sizes(const Request& request) {
  const auto positive = [](const char* key, Index value) {
    if (value < 1) throw input_error(fmt::format("{} = {}", key, value), "plan", "It has to be 1 or more");
  };
  positive("number of ranks", request.ranks);
  positive("train.batch", request.batch);
  positive("train.sequence_length", request.length);
  if (request.config.sequence_degree < 0)
    throw input_error(fmt::format("parallel.sequence_degree = {}", request.config.sequence_degree), "plan",
                      "It has to be 0 (chosen by the system) or more");
}

/// single, data-parallel: no sequence is split.
void refuse_degree(const Request& request) {
  const Index degree = request.config.sequence_degree;
  if (degree > 1)
    throw input_error(fmt::format("parallel.sequence_degree = {} contradicts parallel.system = {}", degree,
                                  to_string(request.config.system)),
                      "plan", "Leave it out, or choose ulysses");
}

void check_data_parallel(const Request& request) {
  if (request.batch % request.ranks == 0) return;
  throw input_error(
      fmt::format("train.batch = {} cannot be shared evenly by {} ranks", request.batch, request.ranks),
      fmt::format("parallel.system = {}", to_string(request.config.system)),
      fmt::format("A batch of {} would fit, or {} ranks", nearest_multiples(request.batch, request.ranks),
                  list(request.divisors(request.batch))));
}

Index ulysses_degree(const Request& request) {
  const Index asked = request.config.sequence_degree;
  const Index k = asked == 0 ? request.ranks : asked;
  if (request.ranks % k != 0)
    throw input_error(
        fmt::format("parallel.sequence_degree = {} does not divide the {} ranks", k, request.ranks),
        "parallel.system = ulysses", other_degrees(request));
  const Index groups = request.ranks / k;
  if (request.batch % groups != 0)
    throw input_error(fmt::format("train.batch = {} cannot be shared evenly by {} groups of {} ranks",
                                  request.batch, groups, k),
                      "parallel.system = ulysses",
                      fmt::format("A batch of {} would fit. {}", nearest_multiples(request.batch, groups),
                                  other_degrees(request)));
  check_degree(request, k);
  return k;
}

Index basp_degree(const Request& request) {
  const Index ranks = request.ranks, batch = request.batch;
  if (batch > ranks)
    check_data_parallel(request);
  else if (ranks % batch != 0)
    throw input_error(fmt::format("train.batch = {} does not divide the {} ranks", batch, ranks),
                      "parallel.system = basp", other_degrees(request));
  const Index k = batch > ranks ? 1 : ranks / batch;
  const Index asked = request.config.sequence_degree;
  if (asked != 0 && asked != k)
    throw input_error(
        fmt::format("parallel.sequence_degree = {}, but {} ranks and train.batch = {} make it {}", asked,
                    ranks, batch, k),
        "parallel.system = basp", "Leave it out, or choose ulysses");
  check_degree(request, k);
  return k;
}

Index degree_of(const Request& request) {
  switch (request.config.system) {
    case System::single:
      refuse_degree(request);
      if (request.ranks > 1)
        throw input_error(fmt::format("parallel.system = single with {} ranks", request.ranks), "plan",
                          "Start 1 rank, or choose data-parallel, ulysses or basp");
      return 1;
    case System::data_parallel:
      refuse_degree(request);
      check_data_parallel(request);
      return 1;
    case System::ulysses:
      return ulysses_degree(request);
    case System::basp:
      return basp_degree(request);
  }
  return 1;
}

/// Group `index` of N/K equal groups: K contiguous ranks, an equal share of the batch, and every rank an
/// equal, contiguous part of each of its sequences.
Group make_group(Index index, Index k, Index sequences, Index length) {
  Group group;
  group.ranks.resize(static_cast<std::size_t>(k));
  std::iota(group.ranks.begin(), group.ranks.end(), static_cast<int>(index * k));
  group.sequence_begin = index * sequences;
  group.sequence_end = group.sequence_begin + sequences;
  const Index part = length / k;
  for (Index place = 0; place < k; ++place) {
    auto& shards = group.shards.emplace_back();
    for (Index s = group.sequence_begin; s < group.sequence_end; ++s)
      shards.push_back({s, place * part, (place + 1) * part});
  }
  return group;
}

/// Ranks that share out parameters.
int shard_ranks_of(const config::ParallelConfig& config, int ranks, Index k) {
  using config::Sharding;
  if (config.sharding == Sharding::none) return 1;
  if (config.sharding != Sharding::mics) return ranks;
  const Index p = config.shard_ranks == 0 ? k : config.shard_ranks;
  if (ranks % p != 0)
    throw input_error(fmt::format("parallel.shard_ranks = {} does not divide the {} ranks", p, ranks),
                      "parallel.sharding = mics", "Choose a divisor of the number of ranks");
  return static_cast<int>(p);
}

}  // namespace

Index Group::rows(int i) const {
  Index sum = 0;
  for (const auto& shard : shards[static_cast<std::size_t>(i)]) sum += shard.end - shard.begin;
  return sum;
}

int Plan::group_of(int rank) const {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
    return std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end();
  });
  return static_cast<int>(found - groups.begin());
}

int Plan::place_of(int rank) const {
  const auto& members = group(rank).ranks;
  return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

std::vector<Index> Plan::token_indices(int rank) const {
  std::vector<Index> indices;
  for (const auto& shard : shards(rank))
    for (Index p = shard.begin; p < shard.end; ++p) indices.push_back(shard.sequence * sequence_length + p);
  return indices;
}

Plan make_plan_outline(const config::ParallelConfig& config, int ranks,
                       const config::Architecture& architecture, Index batch, Index sequence_length) {
  const Request request{config, architecture, ranks, batch, sequence_length};
  check_sizes(request);
  const Index k = degree_of(request);
  const Index sequences = batch / (ranks / k);
  if (sequence_length > std::numeric_limits<int>::max() / sequences)
    throw input_error(fmt::format("{} sequences of {} tokens in one group are more than {} rows of attention",
                                  sequences, sequence_length, std::numeric_limits<int>::max()),
                      "train.sequence_length", "Use a smaller train.batch and more train.accumulation");

  Plan plan;
  plan.asked = config.system;
  plan.system = config.system == System::basp && batch > ranks ? System::data_parallel : config.system;
  plan.ranks = ranks;
  plan.batch = batch;
  plan.sequence_length = sequence_length;
  plan.sequence_degree = static_cast<int>(k);
  plan.sharding = config.sharding;
  plan.shard_ranks = shard_ranks_of(config, ranks, k);
  plan.groups.push_back(make_group(0, k, sequences, sequence_length));
  return plan;
}

Plan make_plan(const config::ParallelConfig& config, int ranks, const config::Architecture& architecture,
               Index batch, Index sequence_length) {
  Plan plan = make_plan_outline(config, ranks, architecture, batch, sequence_length);
  const Index k = plan.sequence_degree, groups = ranks / k;
  for (Index g = 1; g < groups; ++g) plan.groups.push_back(make_group(g, k, batch / groups, sequence_length));
  return plan;
}

}  // namespace minisp::parallel
