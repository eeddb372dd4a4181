// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The communicators of a plan.
#pragma once

#include "comm/communicator.hpp"
#include "parallel/plan.hpp"

namespace minisp::parallel {

class Mesh {
 public:
  /// Collective over `world`, which outlives the mesh and has plan.ranks ranks. Every rank takes part in the
  /// creation of every communicator (the paper's algorithm 1 returns early from its loop, which hangs).
  Mesh(const comm::Communicator& world, Plan plan);

  const Plan& plan() const { return plan_; }
  const Group& group() const { return plan_.group(world_.rank()); }
  int rank() const { return world_.rank(); }
  /// All ranks: gradients, losses and token counts are summed over these.
  const comm::Communicator& world() const { return world_; }
  /// The ranks of this rank's group, named "sequence", in the order of Group::ranks.
  const comm::Communicator& sequence() const { return sequence_; }
  /// The plan.shard_ranks ranks that share out parameters, named "shard"; one rank where nothing is sharded.
  const comm::Communicator& shard() const { return shard_; }
  /// The ranks that hold the same shard in other such groups, named "replicas".
  const comm::Communicator& replicas() const { return replicas_; }

 private:
  const comm::Communicator& world_;
  Plan plan_;
  comm::Communicator sequence_, shard_, replicas_;
};

}  // namespace minisp::parallel
