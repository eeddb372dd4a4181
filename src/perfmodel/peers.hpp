// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Who sits beside whom, counted without looking at ranks one by one: ranks of a family of groups fall into
// few classes by how many of their group's members share their node. Time and memory grow with the ranks of
// a node, not with the ranks of the job.
#pragma once

#include <cstdint>
#include <vector>

namespace minisp::perfmodel {

using Index = std::int64_t;

enum class Collective { all_to_all, all_gather };

/// How ranks are laid on nodes: `contiguous` fills one node after the other, `strided` deals ranks out in
/// turn.
enum class Mapping { contiguous, strided };

struct Placement {
  Index ranks = 1;
  Index ranks_per_node = 1;
  Mapping mapping = Mapping::contiguous;

  Index nodes() const { return (ranks + ranks_per_node - 1) / ranks_per_node; }
};

/// Ranks that have as many members of their group on their node.
struct PeerClass {
  Index on_node = 0, off_node = 0;  ///< other members of the group
  Index ranks = 0;                  ///< ranks like this, of all groups together

  bool operator==(const PeerClass&) const = default;
};

struct Peers {
  Index group_ranks = 1;
  std::vector<PeerClass> classes;  ///< by on_node, ascending
  /// Largest over the nodes: off_node summed over the ranks of a node, which share its links.
  Index node_sends = 0;

  /// Ranks whose group reaches beyond their node.
  Index straddling_ranks() const;
};

/// Groups of `size` consecutive ranks. `size` divides the ranks.
Peers consecutive_groups(const Placement& placement, Index size);
/// Groups of ranks that are equal modulo `stride`. `stride` divides the ranks.
Peers strided_groups(const Placement& placement, Index stride);

}  // namespace minisp::perfmodel
