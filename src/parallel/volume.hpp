// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What a decomposition has to send, in closed form, and whether the ledger says the same. Nothing here is
// derived from the code that sends: the formulas are those of the literature.
#pragma once

#include "comm/ledger.hpp"
#include "model/parameters.hpp"
#include "parallel/plan.hpp"

#include <string>
#include <vector>

namespace minisp::parallel {

/// What one line of one rank's ledger should hold.
struct ExpectedTraffic {
  std::string collective, phase, communicator;
  Index calls = 0;
  Index bytes_on_node = 0;
  Index bytes_off_node = 0;
};

/// Formulas for one rank of a plan, whose ranks sit on the nodes `node_of_rank` (any numbering).
class TrafficModel {
 public:
  TrafficModel(const Plan& plan, int rank, std::vector<int> node_of_rank);

  /// The exchanges around attention in `micro_steps` forward and backward passes: with T tokens a rank, e
  /// bytes an element, h query and kv K/V heads of size d, kv' = max(kv, K), H = h d, one layer sends
  ///   q, k, v: e T (H + 2 kv' d) (K-1)/K,   output: e T H (K-1)/K,
  /// each once forward and once backward: 4 e T (H + kv' d) (K-1)/K in all. Empty with K = 1. Full
  /// recomputation makes two forward passes.
  std::vector<ExpectedTraffic> attention(const config::Architecture& architecture, std::size_t element_bytes,
                                         Index micro_steps, Index forward_passes = 1) const;

  /// `calls` sums of `elements` over all ranks: 2 e ceil(elements / N) (N-1) bytes each.
  ExpectedTraffic all_reduce(const std::string& phase, Index elements, std::size_t element_bytes,
                             Index calls = 1) const;

  /// Weights and gradients in `steps` steps of `micro_steps` each, by the table of parameter_store.hpp.
  /// Blocks are gathered for the forward and the backward pass; the final norm and head once, the embeddings
  /// once and, as a tied head, once more.
  std::vector<ExpectedTraffic> parameters(const std::vector<model::ParameterUnit>& units, bool tied_head,
                                          std::size_t weight_bytes, std::size_t gradient_bytes, Index steps,
                                          Index micro_steps) const;

  /// `calls` scalars (8 bytes) to all ranks.
  ExpectedTraffic scalars(const std::string& phase, Index calls) const;

  /// `calls` barriers of all ranks.
  ExpectedTraffic barriers(const std::string& phase, Index calls) const;

 private:
  std::vector<int> shard_ranks() const;
  std::vector<int> replica_ranks() const;
  ExpectedTraffic to_peers(const char* collective, const std::string& phase, const char* communicator,
                           const std::vector<int>& ranks, Index calls, Index bytes_per_peer) const;

  const Plan& plan_;
  int rank_;
  std::vector<int> node_of_rank_;
};

/// One sentence a line that differs: too few or too many calls or bytes, on the wrong tier, a line that
/// nobody expects, one that is missing. Lines of the same collective, phase and communicator are added up.
/// Empty: the counted traffic is the expected one.
std::vector<std::string> compare(const comm::Ledger& ledger, const std::vector<ExpectedTraffic>& expected);

}  // namespace minisp::parallel
