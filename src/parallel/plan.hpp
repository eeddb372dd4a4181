// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Who computes what, as data: groups of ranks, the sequences of each, the tokens of each rank. Made from
// numbers alone, before anything is allocated or sent.
//
// Ulysses: arXiv:2309.14509. BASP: arXiv:2609.03151, algorithm 1 (groups) and 2 (tokens of a rank).
#pragma once

#include "config/config.hpp"
#include "util/views.hpp"

#include <vector>

namespace minisp::parallel {

/// Positions [begin, end) of one sequence of the micro-batch.
struct Shard {
  Index sequence = 0;
  Index begin = 0, end = 0;

  bool operator==(const Shard&) const = default;
};

/// Ranks that split sequences among each other.
struct Group {
  std::vector<int> ranks;
  Index sequence_begin = 0, sequence_end = 0;  ///< rows of the micro-batch that this group computes
  std::vector<std::vector<Shard>> shards;      ///< shards[i]: the token rows of ranks[i], in their order

  Index sequences() const { return sequence_end - sequence_begin; }
  /// Token rows that ranks[i] holds.
  Index rows(int i) const;

  bool operator==(const Group&) const = default;
};

struct Plan {
  config::System asked = config::System::single;   ///< as the deck has it
  config::System system = config::System::single;  ///< what it comes to: BASP with B > N is data parallel
  int ranks = 1;
  Index batch = 1;            ///< B: sequences of one micro-step over all ranks
  Index sequence_length = 1;  ///< S
  int sequence_degree = 1;    ///< K: ranks of a group; 1: nothing is exchanged around attention
  config::Sharding sharding = config::Sharding::none;
  int shard_ranks = 1;        ///< contiguous ranks that share out parameters; 1: every rank has all
  std::vector<Group> groups;  ///< groups of contiguous ranks, every rank in one

  /// Index of the group of a rank, and the rank's place in it.
  int group_of(int rank) const;
  int place_of(int rank) const;
  const Group& group(int rank) const { return groups[group_of(rank)]; }
  /// The token rows of a rank.
  const std::vector<Shard>& shards(int rank) const { return group(rank).shards[place_of(rank)]; }
  /// Index in the micro-batch of the token of each of those rows: sequence * S + position.
  std::vector<Index> token_indices(int rank) const;
  /// T = B S / N.
  Index rows(int rank) const { return group(rank).rows(place_of(rank)); }
};

/// The plan of `ranks` ranks for a micro-batch of `batch` sequences of `sequence_length` tokens.
///
/// | system        | groups | K                          | needs                              |
/// | single        | 1      | 1                          | N = 1                              |
/// | data-parallel | N      | 1                          | N divides B                        |
/// | ulysses       | N / K  | sequence_degree, or N if 0 | K divides N; N / K divides B       |
/// | basp          | B      | N / B                      | B divides N; B > N: N divides B    |
///
/// and with K > 1: K divides S and the query heads; K divides the K/V heads or they divide K. Throws Error
/// (bad_input) that names the key, its value and the values that would work.
Plan make_plan(const config::ParallelConfig& config, int ranks, const config::Architecture& architecture,
               Index batch, Index sequence_length);

/// The same with the first group alone, which is like all others: for more ranks than are to be listed.
Plan make_plan_outline(const config::ParallelConfig& config, int ranks,
                       const config::Architecture& architecture, Index batch, Index sequence_length);

}  // namespace minisp::parallel
