// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// An all-gather that sends each block to a node once (hierarchical collectives: J. L. Traeff, "Improved MPI
// All-to-all Communication on a Giganet SMP Cluster", EuroPVM/MPI 2002).
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace minisp::comm {

/// For ranks of which equally many, and more than one, sit on each of several nodes: each gathers from its
/// counterparts on the other nodes, then from the ranks of its node. An exchange of all with all sends a
/// block to a node once for every rank there; the algorithms that MPI libraries choose by size alone do so
/// too, or worse.
class TwoStageGather {
 public:
  /// Collective over `comm`; `nodes`: node of each rank. None where ranks do not sit like that, node by node
  /// or dealt out to the nodes in turn.
  static std::unique_ptr<TwoStageGather> make(MPI_Comm comm, const std::vector<int>& nodes);
  ~TwoStageGather();
  TwoStageGather(const TwoStageGather&) = delete;
  TwoStageGather& operator=(const TwoStageGather&) = delete;

  /// receive = the ranks' blocks in the order of ranks.
  void run(const void* send, void* receive, std::size_t block_bytes) const;

 private:
  TwoStageGather() = default;

  MPI_Comm across_ = MPI_COMM_NULL;  // this rank's counterparts, by node
  MPI_Comm node_ = MPI_COMM_NULL;
  int nodes_ = 1, place_ = 0;               // place of this rank on its node
  int node_stride_ = 1, place_stride_ = 1;  // in ranks: from node to node, from place to place
};

}  // namespace minisp::comm
