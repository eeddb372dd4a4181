// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/volume.hpp"

#include "parallel/parameter_store.hpp"
#include "parallel/ulysses_attend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace minisp::parallel {

namespace {

std::vector<int> all_ranks(const Plan& plan) {
  std::vector<int> ranks(static_cast<std::size_t>(plan.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

TrafficModel::TrafficModel(const Plan& plan, int rank, std::vector<int> node_of_rank)
    : plan_(plan), rank_(rank), node_of_rank_(std::move(node_of_rank)) {}

ExpectedTraffic TrafficModel::to_peers(const char* collective, const std::string& phase,
                                       const char* communicator, const std::vector<int>& ranks, Index calls,
                                       Index bytes_per_peer) const {
  const auto node = [&](int rank) { return node_of_rank_[static_cast<std::size_t>(rank)]; };
  const auto on_node = std::count_if(ranks.begin(), ranks.end(),
                                     [&](int other) { return other != rank_ && node(other) == node(rank_); });
  const auto off_node = static_cast<Index>(ranks.size()) - 1 - on_node;
  return {collective,
          phase,
          communicator,
          calls,
          calls * bytes_per_peer * on_node,
          calls * bytes_per_peer * off_node};
}

std::vector<int> TrafficModel::shard_ranks() const {
  std::vector<int> ranks(static_cast<std::size_t>(plan_.shard_ranks));
  std::iota(ranks.begin(), ranks.end(), rank_ / plan_.shard_ranks * plan_.shard_ranks);
  return ranks;
}

std::vector<int> TrafficModel::replica_ranks() const {
  std::vector<int> ranks;
  for (int rank = rank_ % plan_.shard_ranks; rank < plan_.ranks; rank += plan_.shard_ranks)
    ranks.push_back(rank);
  return ranks;
}

std::vector<ExpectedTraffic> TrafficModel::attention(const config::Architecture& architecture,
                                                     std::size_t element_bytes, Index micro_steps,
                                                     Index forward_passes) const {
  const Index k = plan_.sequence_degree;
  if (k == 1) return {};
  const Index tokens = plan_.rows(rank_);
  const Index d = architecture.head_dim;
  const Index e = static_cast<Index>(element_bytes);
  const Index kv = std::max<Index>(architecture.kv_heads, k);
  // To each of the K-1 others 1/K of q, k and v, or of the output, of this rank's tokens.
  const Index qkv = e * tokens * (architecture.heads + 2 * kv) * d / k;
  const Index output = e * tokens * architecture.heads * d / k;
  const Index calls = architecture.layers * micro_steps;
  const auto& ranks = plan_.group(rank_).ranks;
  const auto line = [&](const char* name, Index passes, Index bytes) {
    return to_peers("all_to_all", name, "sequence", ranks, passes * calls, bytes);
  };
  return {line(phase::exchange_qkv_forward, forward_passes, qkv),
          line(phase::exchange_output_forward, forward_passes, output),
          line(phase::exchange_output_backward, 1, output), line(phase::exchange_qkv_backward, 1, qkv)};
}

ExpectedTraffic TrafficModel::all_reduce(const std::string& phase, Index elements, std::size_t element_bytes,
                                         Index calls) const {
  const Index chunk = (elements + plan_.ranks - 1) / plan_.ranks;
  return to_peers("all_reduce_sum", phase, "world", all_ranks(plan_), calls,
                  2 * chunk * static_cast<Index>(element_bytes));
}

std::vector<ExpectedTraffic> TrafficModel::parameters(const std::vector<model::ParameterUnit>& units,
                                                      bool tied_head, std::size_t weight_bytes,
                                                      std::size_t gradient_bytes, Index steps,
                                                      Index micro_steps) const {
  using config::Sharding;
  const auto sharding = plan_.sharding;
  const bool gathers_units = sharding == Sharding::zero3 || sharding == Sharding::mics;
  const Index passes = steps * micro_steps;
  const auto in_shard = [&](const char* collective, const char* name, Index calls, Index bytes_per_peer) {
    return to_peers(collective, name, "shard", shard_ranks(), calls, bytes_per_peer);
  };
  std::vector<ExpectedTraffic> lines;
  Index shard = 0;  // elements of a rank
  for (const auto& unit : units) {
    if (sharding == Sharding::none) {
      lines.push_back(all_reduce(phase::reduce_gradients, unit.size, gradient_bytes, steps));
      continue;
    }
    const Index chunk = (unit.size + plan_.shard_ranks - 1) / plan_.shard_ranks;
    const bool embeddings = &unit == &units.front(), last = &unit == &units.back();
    const Index gathers = last || (embeddings && !tied_head) ? 1 : 2;
    lines.push_back(in_shard("reduce_scatter_sum", phase::reduce_gradients,
                             sharding == Sharding::zero1 ? steps : passes,
                             chunk * static_cast<Index>(gradient_bytes)));
    lines.push_back(in_shard("all_gather", phase::gather_weights, gathers_units ? passes * gathers : steps,
                             chunk * static_cast<Index>(weight_bytes)));
    shard += chunk;
  }
  if (sharding != Sharding::none) lines.push_back(in_shard("scalars", phase::gradient_norm, steps, 8));
  if (sharding == Sharding::mics) {
    const auto ranks = replica_ranks();
    const Index replicas = static_cast<Index>(ranks.size());
    lines.push_back(to_peers("all_reduce_sum", phase::reduce_gradients, "replicas", ranks, steps,
                             2 * ((shard + replicas - 1) / replicas) * static_cast<Index>(gradient_bytes)));
  }
  return lines;
}

ExpectedTraffic TrafficModel::scalars(const std::string& phase, Index calls) const {
  return to_peers("scalars", phase, "world", all_ranks(plan_), calls, 8);
}

ExpectedTraffic TrafficModel::barriers(const std::string& phase, Index calls) const {
  return to_peers("barrier", phase, "world", all_ranks(plan_), calls, 0);
}

namespace {

using Key = std::tuple<std::string, std::string, std::string>;  // collective, phase, communicator
struct Amount {
  Index calls = 0, on_node = 0, off_node = 0;

  bool operator==(const Amount&) const = default;
};

template <class Lines>
std::map<Key, Amount> add_up(const Lines& lines) {
  std::map<Key, Amount> sums;
  for (const auto& line : lines) {
    auto& sum = sums[{line.collective, line.phase, line.communicator}];
    sum.calls += line.calls;
    sum.on_node += line.bytes_on_node;
    sum.off_node += line.bytes_off_node;
  }
  return sums;
}

std::string describe(const Amount& amount) {
  return fmt::format("{} calls, {} bytes on this node and {} off it", amount.calls, amount.on_node,
                     amount.off_node);
}

}  // namespace

std::vector<std::string> compare(const comm::Ledger& ledger, const std::vector<ExpectedTraffic>& expected) {
  const auto counted = add_up(ledger.entries());
  auto all = add_up(expected);
  for (const auto& [key, amount] : counted) all.emplace(key, Amount{});  // lines that nobody expects
  std::vector<std::string> differences;
  for (const auto& [key, wanted] : all) {
    const auto found = counted.find(key);
    const Amount have = found == counted.end() ? Amount{} : found->second;
    if (have == wanted) continue;
    const auto& [collective, phase, communicator] = key;
    differences.push_back(fmt::format("{} in phase '{}' over '{}': counted {}, expected {}", collective,
                                      phase, communicator, describe(have), describe(wanted)));
  }
  return differences;
}

}  // namespace minisp::parallel
