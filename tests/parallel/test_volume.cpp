// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/plan_support.hpp"
#include "parallel/volume.hpp"

#include <gtest/gtest.h>

#include <gmock/gmock.h>

namespace minisp::parallel {
namespace {

Index total(const std::vector<ExpectedTraffic>& lines) {
  Index sum = 0;
  for (const auto& line : lines) sum += line.bytes_on_node + line.bytes_off_node;
  return sum;
}

TEST(Volume, LayerSendsTheFormulaOfTheLiterature) {
  // 4 e T (H + kv' d) (K-1)/K a layer, kv' = max(kv, K).
  const Index d = 8, layers = 3, length = 48, batch = 2, e = 4;
  const auto model = small_model(24, 4, d, layers);
  for (const Index k : {1, 2, 4, 8}) {
    const auto plan = make_plan(ulysses(k), 8, model, 8, length);
    const TrafficModel traffic(plan, 3, std::vector<int>(8, 0));
    const Index tokens = 8 * length / 8;
    const Index kv = k == 8 ? 8 : 4;
    EXPECT_EQ(total(traffic.attention(model, e, batch)),
              batch * layers * 4 * e * tokens * (24 * d + kv * d) * (k - 1) / k);
  }
}

TEST(Volume, BaspSendsLessThanUlyssesByTheTierAndTheRatio) {
  // N = 8, B = 2: (7/8) / (3/4), and with two nodes of four nothing leaves the node.
  const auto model = small_model(8, 8);
  const std::vector<int> nodes = {0, 0, 0, 0, 1, 1, 1, 1};
  const auto u = make_plan(ulysses(8), 8, model, 2, 32), b = make_plan(basp(), 8, model, 2, 32);
  const auto of_ulysses = TrafficModel(u, 5, nodes).attention(model, 4, 1);
  const auto of_basp = TrafficModel(b, 5, nodes).attention(model, 4, 1);
  EXPECT_EQ(total(of_ulysses) * 6, total(of_basp) * 7);
  for (const auto& line : of_basp) EXPECT_EQ(line.bytes_off_node, 0);
  for (const auto& line : of_ulysses) EXPECT_EQ(line.bytes_off_node * 3, line.bytes_on_node * 4);
}

TEST(Volume, PlacementDecidesTheTierOnly) {
  const auto model = small_model(8, 8);
  const auto plan = make_plan(basp(), 8, model, 2, 32);
  const auto near = TrafficModel(plan, 0, {0, 0, 0, 0, 1, 1, 1, 1}).attention(model, 4, 1);
  const auto far = TrafficModel(plan, 0, {0, 1, 0, 1, 0, 1, 0, 1}).attention(model, 4, 1);
  EXPECT_EQ(total(near), total(far));
  for (std::size_t i = 0; i < near.size(); ++i) {
    EXPECT_EQ(near[i].bytes_off_node, 0);
    EXPECT_EQ(far[i].bytes_off_node, 2 * far[i].bytes_on_node);
  }
}

TEST(Volume, AllReduceRoundsUpToOneElementARank) {
  const auto plan = make_plan(basp(), 4, small_model(4, 4), 4, 8);
  const TrafficModel traffic(plan, 1, {0, 0, 1, 1});
  EXPECT_EQ(total({traffic.all_reduce("gradients", 100, 4)}), 2 * 100 * 4 * 3 / 4);
  EXPECT_EQ(total({traffic.all_reduce("gradients", 101, 4)}), 2 * 26 * 4 * 3);
  EXPECT_EQ(total({traffic.all_reduce("gradients", 0, 4)}), 0);
  // Larger than 32 bits count.
  EXPECT_EQ(total({traffic.all_reduce("gradients", Index{8} << 30, 4, 5)}), 5 * 6 * (Index{8} << 30));
  EXPECT_EQ(traffic.scalars("loss", 3).bytes_on_node, 24);
  EXPECT_EQ(traffic.scalars("loss", 3).bytes_off_node, 48);
}

comm::LedgerEntry line(const char* communicator, Index calls, Index on_node, Index off_node) {
  comm::LedgerEntry entry;
  entry.collective = "all_to_all";
  entry.communicator = communicator;
  entry.calls = calls;
  entry.bytes_on_node = on_node;
  entry.bytes_off_node = off_node;
  return entry;
}

TEST(Compare, NamesEveryDifference) {
  const std::vector<ExpectedTraffic> expected = {{"all_to_all", "forward", "sequence", 2, 100, 50}};
  const auto differences = [&](const std::vector<comm::LedgerEntry>& calls) {
    comm::Ledger ledger;
    const auto label = ledger.phase("forward");
    for (const auto& call : calls) ledger.enter(call);
    return compare(ledger, expected);
  };
  EXPECT_TRUE(differences({line("sequence", 2, 100, 50)}).empty());
  EXPECT_TRUE(differences({line("sequence", 1, 50, 25), line("sequence", 1, 50, 25)}).empty());
  EXPECT_EQ(differences({}).size(), 1u);                              // not sent
  EXPECT_EQ(differences({line("sequence", 3, 100, 50)}).size(), 1u);  // a call too many
  EXPECT_EQ(differences({line("sequence", 2, 101, 50)}).size(), 1u);  // a byte too many
  EXPECT_EQ(differences({line("sequence", 2, 50, 100)}).size(), 1u);  // the wrong tier
  EXPECT_EQ(differences({line("replica", 2, 100, 50)}).size(), 2u);   // the wrong group
  EXPECT_EQ(differences({line("sequence", 2, 100, 50), line("world", 1, 0, 0)}).size(), 1u);  // unexpected
  EXPECT_THAT(differences({line("sequence", 2, 50, 100)})[0],
              testing::AllOf(testing::HasSubstr("'forward'"), testing::HasSubstr("'sequence'"),
                             testing::HasSubstr("100 bytes")));
}

}  // namespace
}  // namespace minisp::parallel
