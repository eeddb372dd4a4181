// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Classes of ranks against an enumeration of all ranks, and how few there are of a million.
#include "perfmodel/peers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace minisp::perfmodel {
namespace {

Index node_of(const Placement& p, Index rank) {
  return p.mapping == Mapping::strided ? rank % p.nodes() : rank / p.ranks_per_node;
}

/// The definition, rank by rank: group_of(rank) says which group a rank is in.
template <class GroupOf>
Peers enumerate(const Placement& p, Index size, const GroupOf& group_of) {
  std::map<std::pair<Index, Index>, Index> members;  // of a group on a node
  for (Index r = 0; r < p.ranks; ++r) ++members[{group_of(r), node_of(p, r)}];
  std::map<Index, Index> classes;
  std::vector<Index> sends(static_cast<std::size_t>(p.nodes()));
  for (Index r = 0; r < p.ranks; ++r) {
    const Index here = members[{group_of(r), node_of(p, r)}];
    ++classes[here - 1];
    sends[static_cast<std::size_t>(node_of(p, r))] += size - here;
  }
  Peers peers{size, {}, *std::max_element(sends.begin(), sends.end())};
  for (const auto& [on_node, ranks] : classes) peers.classes.push_back({on_node, size - 1 - on_node, ranks});
  return peers;
}

TEST(Peers, AreThoseOfAnEnumerationOfAllRanks) {
  int compared = 0;
  for (Index ranks = 1; ranks <= 36; ++ranks)
    for (Index width = 1; width <= 9; ++width)
      for (const auto mapping : {Mapping::contiguous, Mapping::strided}) {
        const Placement p{ranks, width, mapping};
        for (Index size = 1; size <= ranks; ++size) {
          if (ranks % size != 0) continue;
          SCOPED_TRACE(testing::Message() << ranks << " ranks, " << width << " a node, groups of " << size
                                          << (mapping == Mapping::strided ? ", dealt out" : ""));
          const auto block = consecutive_groups(p, size);
          const auto all = enumerate(p, size, [&](Index r) { return r / size; });
          EXPECT_EQ(block.classes, all.classes);
          EXPECT_EQ(block.node_sends, all.node_sends);
          const Index stride = ranks / size;
          const auto comb = strided_groups(p, stride);
          const auto all_comb = enumerate(p, size, [&](Index r) { return r % stride; });
          EXPECT_EQ(comb.classes, all_comb.classes);
          EXPECT_EQ(comb.node_sends, all_comb.node_sends);
          compared += 2;
        }
      }
  EXPECT_GT(compared, 1000);
}

TEST(Peers, OfAMillionRanksFallIntoFewClasses) {
  // Groups of 12 on nodes of 8: pieces of 4 and of 8, never more classes than ranks of a node.
  const Placement p{999'996, 8};
  const auto groups = consecutive_groups(p, 12);
  EXPECT_LE(groups.classes.size(), 8U);
  Index ranks = 0;
  for (const auto& one : groups.classes) ranks += one.ranks;
  EXPECT_EQ(ranks, p.ranks);
  EXPECT_EQ(groups.straddling_ranks(), p.ranks);
  for (const Index size : {Index{1}, Index{4}, p.ranks / 3, p.ranks}) {
    EXPECT_LE(consecutive_groups(p, size).classes.size(), 8U);
    EXPECT_LE(strided_groups(p, size).classes.size(), 8U);
  }
  EXPECT_EQ(consecutive_groups(p, 4).straddling_ranks(), 0);
}

}  // namespace
}  // namespace minisp::perfmodel
