// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Seconds worked out by hand.
#include "perfmodel/predict.hpp"
#include "perfmodel_support.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <gmock/gmock.h>

namespace minisp::perfmodel {
namespace {

using ::testing::HasSubstr;

TEST(Predict, AGroupOfOneRankSendsNothing) {
  const auto machine = simple_machine();
  EXPECT_EQ(wire_seconds(machine.all_to_all, {Collective::all_to_all, consecutive_groups({8, 4}, 1), 1e9, 1}),
            0);
  EXPECT_EQ(skew_seconds(machine.skew, 1, 5), 0);
  const auto prediction = predict(machine, equal_lengths(small_deck(), {8, 1}, {8, 4}));
  EXPECT_EQ(prediction.all_to_all, 0);
  const auto alone = predict(machine, equal_lengths(small_deck(), {1, 1}, {1, 4}));
  for (const auto& phase : alone.phases) EXPECT_EQ(phase.wait + phase.wire, 0) << phase.name;
}

TEST(Predict, AllToAllIsTheFormOfTheModel) {
  // Eight ranks on two nodes: 3 peers here, 4 there, and 4 x 4 messages over the node's one link.
  const auto machine = simple_machine();
  const double bytes = 1000;
  const double latency = 0.01 + 3 * 0.002 + 4 * 0.003;
  const auto world = consecutive_groups({8, 4}, 8), node = consecutive_groups({8, 4}, 4);
  const auto seconds = [&](const Peers& peers, double size, Index links, double burst = 0) {
    return wire_seconds(machine.all_to_all, {Collective::all_to_all, peers, size, links}, burst);
  };
  EXPECT_DOUBLE_EQ(seconds(world, bytes, 1), latency + 16 * bytes / 1e6);
  EXPECT_DOUBLE_EQ(seconds(world, bytes, 2), latency + 8 * bytes / 1e6);
  EXPECT_DOUBLE_EQ(seconds(node, bytes, 1), 0.01 + 3 * 0.002 + 3 * bytes / 1e7);
  EXPECT_DOUBLE_EQ(seconds(world, bytes, 1, 6000), latency + (16 * bytes - 6000) / 1e6);
  EXPECT_DOUBLE_EQ(seconds(world, 100, 1, 6000), latency + 3 * 100 / 1e7);
  // The last of eight ranks sends four blocks over a link that nobody else needs any more.
  EXPECT_DOUBLE_EQ(last_wire_seconds(machine.all_to_all, {Collective::all_to_all, world, bytes, 1}),
                   latency + 4 * bytes / 1e6);
  EXPECT_DOUBLE_EQ(skew_seconds(machine.skew, 8, 2), 3 * (0.0005 + 0.1 * 2));
}

TEST(Predict, AGatherSendsABlockToANodeOnce) {
  const auto machine = simple_machine();
  const auto seconds = [&](const Peers& peers) {
    return wire_seconds(machine.all_gather, {Collective::all_gather, peers, 1000, 1});
  };
  // 16 ranks on four nodes: three counterparts elsewhere, to which the node's four ranks send 4 x 3 blocks.
  EXPECT_DOUBLE_EQ(seconds(consecutive_groups({16, 4}, 16)),
                   0.02 + 3 * 0.001 + 3 * 0.002 + 4 * 3 * 1000 / 2e6);
  // Within the node twelve blocks go around, of all nodes: more than passes the link where that is fast.
  auto fast = machine;
  fast.all_gather.bytes_per_s_off_node = 1e9;
  EXPECT_DOUBLE_EQ(
      wire_seconds(fast.all_gather, {Collective::all_gather, consecutive_groups({16, 4}, 16), 1000, 1}),
      0.02 + 3 * 0.001 + 3 * 0.002 + 3 * 4 * 1000 / 2e7);
  // One rank of each node, four such groups: nothing to save. Uneven groups exchange all with all.
  EXPECT_DOUBLE_EQ(seconds(strided_groups({16, 4}, 4)), 0.02 + 3 * 0.002 + 4 * 3 * 1000 / 2e6);
  EXPECT_DOUBLE_EQ(seconds(consecutive_groups({6, 4}, 6)), 0.02 + 1 * 0.001 + 4 * 0.002 + 8 * 1000 / 2e6);
}

TEST(Predict, ALinkPassesWhatItSavedUp) {
  Bucket bucket(1000, 100);
  EXPECT_EQ(bucket.take(400), 400);
  EXPECT_EQ(bucket.take(900), 600);
  bucket.rest(2);
  EXPECT_EQ(bucket.take(900), 200);
  bucket.rest(1e9);
  EXPECT_EQ(bucket.take(5000), 1000);
}

TEST(Predict, WhatEarlyRanksSendMovesWhileTheyWait) {
  auto machine = simple_machine();
  const auto exchange = [&](double wait_a_call) {
    machine.skew = {wait_a_call / 3, 0, 0};  // log2 of eight ranks
    const auto prediction = predict(machine, equal_lengths(small_deck(), {8, 8}, {8, 4}));
    return *std::find_if(prediction.phases.begin(), prediction.phases.end(),
                         [](const PhaseSeconds& p) { return p.name == "exchange_qkv forward"; });
  };
  const double latency = 0.01 + 3 * 0.002 + 4 * 0.003, bytes = 4 * 4 * 48 / 8;
  const double all = latency + 16 * bytes / 1e6, last = latency + 4 * bytes / 1e6;
  EXPECT_DOUBLE_EQ(exchange(0).wire, all);
  EXPECT_NEAR(exchange(1e-4).wire, all - 1e-4, 1e-12);
  EXPECT_NEAR(exchange(1).wire, last, 1e-12);
}

TEST(Predict, AnExchangeIsItsWireAndItsWait) {
  // Ulysses on eight ranks, T = 4, h = 8, kv' = 8, d = 2, one layer: q, k and v are 48 elements a token.
  auto machine = simple_machine();
  machine.links_per_node = 4;  // a link a rank: waiting saves nothing
  const auto prediction = predict(machine, equal_lengths(small_deck(), {8, 8}, {8, 4}));
  const auto& qkv = *std::find_if(prediction.phases.begin(), prediction.phases.end(),
                                  [](const PhaseSeconds& p) { return p.name == "exchange_qkv forward"; });
  const double latency = 0.01 + 3 * 0.002 + 4 * 0.003, bytes = 4 * 4 * 48 / 8;
  EXPECT_DOUBLE_EQ(qkv.wire, latency + 4 * bytes / 1e6);
  // Since the sum of valid tokens: gradients zeroed, embedding, norm, projection, rotation.
  const double parameters = 64 * 16 + 2 * 16 + (16 + 16) * 16 + 16 * 16 + 3 * 32 * 16 + 16;
  const double zeroed = 0.001 + 4 * parameters / 1e9, pass = 0.001 + 2 * 4 * 4 * 16 / 1e9;
  const double projection = 0.001 + 2.0 * 4 * 32 * 16 / 2e9 + 4.0 * (4 * 16 + 16 * 32 + 4 * 32) / 1e9;
  const double rotation = 0.001 + 4.0 * 4 * (32 + 16 + 2 * 16) / 1e9;
  EXPECT_NEAR(qkv.wait, 3 * (0.0005 + 0.1 * (zeroed + 2 * pass + projection + rotation)), 1e-12);
  EXPECT_DOUBLE_EQ(prediction.all_to_all, prediction.seconds("exchange_qkv forward") +
                                              prediction.seconds("exchange_output forward") +
                                              prediction.seconds("exchange_output backward") +
                                              prediction.seconds("exchange_qkv backward"));
  double sum = 0;
  for (const auto& phase : prediction.phases) sum += phase.total();
  EXPECT_DOUBLE_EQ(prediction.step, sum);
}

TEST(Predict, RanksThatShareACoreTakeTurns) {
  auto machine = simple_machine();
  machine.skew = {};
  const auto scenario = equal_lengths(small_deck(), {8, 8}, {8, 4});
  const auto alone = predict(machine, scenario);
  const auto sum = [](const Prediction& p, double PhaseSeconds::*part) {
    double total = 0;
    for (const auto& phase : p.phases) total += phase.*part;
    return total;
  };
  // Turns that are short: everything takes four times as long. Turns without end: one computes, the others
  // wait.
  for (const double turn : {0.0, 1e9, 0.01}) {
    machine.share = {4, turn};
    const auto shared = predict(machine, scenario);
    const double own = sum(shared, &PhaseSeconds::own), wait = sum(shared, &PhaseSeconds::wait);
    EXPECT_NEAR(own + wait, 4 * sum(alone, &PhaseSeconds::own), 1e-9);
    if (turn == 0) {
      EXPECT_NEAR(wait, 0, 1e-12);
    } else if (turn == 1e9) {
      EXPECT_NEAR(own, sum(alone, &PhaseSeconds::own), 1e-6);
    } else {
      EXPECT_GT(wait, 0.01);
    }
  }
}

TEST(Predict, MappingDecidesTheTier) {
  const auto machine = simple_machine();
  const auto near = predict(machine, equal_lengths(small_deck(), {8, 4}, {8, 4, Mapping::contiguous}));
  const auto far = predict(machine, equal_lengths(small_deck(), {8, 4}, {8, 4, Mapping::strided}));
  // Groups of four lie on a node, or two by two: per call one peer less here and two more there.
  EXPECT_GT(far.all_to_all - near.all_to_all, 4 * (2 * 0.003 - 2 * 0.002));
  EXPECT_DOUBLE_EQ(near.seconds("mlp"), far.seconds("mlp"));
}

TEST(Predict, ShardsOfASubgroupStayOnTheNode) {
  const auto machine = simple_machine();
  const auto config = small_deck({"parallel.prefetch=false"});
  const auto zero3 = predict(machine, equal_lengths(config, {8, 4, config::Sharding::zero3, 8}, {8, 4}));
  const auto mics = predict(machine, equal_lengths(config, {8, 4, config::Sharding::mics, 4}, {8, 4}));
  EXPECT_LT(mics.seconds("gather weights"), zero3.seconds("gather weights"));
}

TEST(Predict, APrefetchedGatherMayBeHidden) {
  auto machine = simple_machine();
  const auto seconds = [&](double exposed, const char* prefetch) {
    machine.exposed_gathers = exposed;
    const auto config = small_deck({std::string("parallel.prefetch=") + prefetch, "model.layers=3"});
    return predict(machine, equal_lengths(config, {8, 4, config::Sharding::zero3, 8}, {8, 4}))
        .seconds("gather weights");
  };
  EXPECT_LT(seconds(0, "true"), seconds(1, "true"));
  EXPECT_EQ(seconds(0, "false"), seconds(1, "false"));
}

TEST(Predict, TheLongestSequenceHoldsBaspUpAndNotUlysses) {
  const auto machine = simple_machine();
  const auto config = small_deck();
  const std::vector<LengthRun> runs = {{24, 1}, {8, 1}};  // as many tokens as two of 16
  const auto basp = unequal_lengths(config, {8, 4}, {8, 4}, runs, "lengths");
  ASSERT_EQ(basp.groups.size(), 2U);
  EXPECT_EQ(basp.groups[0].load.visible_pairs, 24 * 25 / 2);
  EXPECT_EQ(basp.groups[1].load.visible_pairs, 8 * 9 / 2);
  const auto ulysses = unequal_lengths(config, {8, 8}, {8, 4}, runs, "lengths");
  ASSERT_EQ(ulysses.groups.size(), 1U);
  EXPECT_EQ(ulysses.groups[0].load.tokens, 32);
  EXPECT_EQ(ulysses.groups[0].load.visible_pairs, 24 * 25 / 2 + 8 * 9 / 2);
  // The group of the long sequence alone takes the step.
  auto longest = basp;
  longest.groups = {{basp.groups[0].load, 2}};
  EXPECT_NEAR(predict(machine, basp).step, predict(machine, longest).step, 1e-12);
  EXPECT_GT(predict(machine, basp).step, predict(machine, equal_lengths(config, {8, 4}, {8, 4})).step);
}

TEST(Predict, LengthsAreDealtOutInTheirOrder) {
  const auto config = small_deck({"train.batch=12"});
  // Groups of three sequences: 5 5 5 | 5 7 7 | 7 7 7 | 9 9 9.
  const auto s = unequal_lengths(config, {4, 1}, {4, 4}, {{5, 4}, {7, 5}, {9, 3}}, "lengths");
  ASSERT_EQ(s.groups.size(), 4U);
  const double tokens[] = {15, 19, 21, 27};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(s.groups[i].load.tokens, tokens[i]);
  EXPECT_THAT(test::error_of([&] {
                unequal_lengths(config, {4, 1}, {4, 4}, {{5, 4}}, "lengths.txt");
              }),
              HasSubstr("lengths.txt: holds 4 lengths, and train.batch = 12"));
}

TEST(Predict, AMillionRanksAreAFewClasses) {
  // Nothing is listed by rank or by pair: groups by runs of lengths, peers by ranks of a node.
  const auto config = small_deck({"train.batch=262144"});
  const Decomposition d{1 << 20, 4, config::Sharding::zero3, 1 << 20};
  const auto s =
      unequal_lengths(config, d, {1 << 20, 8}, {{16, 200'000}, {32, 62'000}, {4096, 144}}, "lengths");
  EXPECT_LE(s.groups.size(), 9U);
  EXPECT_LE(consecutive_groups(s.placement, d.ranks).classes.size(), 8U);
  EXPECT_GT(predict(simple_machine(), s).step, 0);
}

TEST(Predict, SaysWhatItExtrapolates) {
  const auto machine = simple_machine();
  EXPECT_TRUE(predict(machine, equal_lengths(small_deck(), {8, 8}, {8, 4})).notes.empty());
  const auto notes = predict(machine, equal_lengths(small_deck({"train.batch=16"}), {16, 1}, {16, 4})).notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes.front(), HasSubstr("ranks = 16, where machine 'simple' knows 2 to 8"));
  auto sheet = machine;
  sheet.origin = "data sheet";
  EXPECT_THAT(predict(sheet, equal_lengths(small_deck(), {8, 8}, {8, 4})).notes.at(0),
              HasSubstr("nothing was measured"));
}

}  // namespace
}  // namespace minisp::perfmodel
