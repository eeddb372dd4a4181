// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What one rank does in a step, as the list of what it computes and sends, from the deck's own shapes.
// Nothing here knows a machine. Bytes sent are those of doc/algorithms.md.
#pragma once

#include "config/config.hpp"
#include "perfmodel/peers.hpp"

#include <string>
#include <vector>

namespace minisp::perfmodel {

/// Who shares what: the numbers of a plan that cost anything.
struct Decomposition {
  Index ranks = 1;            ///< N
  Index sequence_degree = 1;  ///< K
  config::Sharding sharding = config::Sharding::none;
  Index shard_ranks = 1;  ///< ranks that share out parameters; 1: every rank has all
};

/// Arithmetic of one phase. Bytes are those that a kernel reads and writes if it touches each operand once.
struct Work {
  double calls = 0, flops = 0, bytes = 0, exponentials = 0;

  Work& operator+=(const Work& other);
  Work operator*(double factor) const;
};

enum class Scope { world, sequence, shard, replicas };

/// One thing after the other: what a rank computes, or a collective that it takes part in.
struct Event {
  std::string phase;  ///< as `minisp run` prints it
  bool computes = true;
  Work work;  ///< of computing
  Collective collective = Collective::all_to_all;
  Scope scope = Scope::world;
  double calls = 0;           ///< of the collective
  double bytes_per_peer = 0;  ///< of each call
  bool prefetched = false;    ///< started while the block before computes
};

/// The sequences of one group in a micro-step.
struct GroupLoad {
  double tokens = 0;         ///< of the group: K times those of a rank
  double visible_pairs = 0;  ///< query-key pairs that the mask lets through, for one head
};

/// The load of `sequences` sequences of `length` tokens; documents of the deck's synthetic tokens shorten
/// what a query sees.
GroupLoad group_load(const config::Config& config, double sequences, double length);

/// A step of one rank, micro-steps one after the other.
std::vector<Event> step_of(const config::Config& config, const Decomposition& decomposition,
                           const GroupLoad& load);

/// Elements of the parameters' units: embeddings, one block, final norm with an untied head.
struct UnitSizes {
  Index embeddings = 0, block = 0, last = 0;
};
UnitSizes unit_sizes(const config::Architecture& architecture);

}  // namespace minisp::perfmodel
