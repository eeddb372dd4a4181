// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Which rank sits on which node.
#pragma once

#include <string>
#include <vector>

namespace minisp::comm {

/// Nodes are numbered by their lowest world rank. A node is a set of ranks that can share memory.
struct Topology {
  std::vector<int> node_of_world_rank;
  std::vector<std::string> host_of_node;  ///< host name of each node's lowest rank

  int nodes() const { return static_cast<int>(host_of_node.size()); }
};

}  // namespace minisp::comm
