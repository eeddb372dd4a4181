// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The ledger of what was really sent against the closed formulas, and a collective on the wrong communicator.
#include "comm/all_reduce.hpp"
#include "comm/all_to_all.hpp"
#include "comm/scalars.hpp"
#include "parallel/ulysses_support.hpp"
#include "parallel/volume.hpp"

#include <gtest/gtest.h>

#include <gmock/gmock.h>

namespace minisp::parallel {
namespace {

/// World whose ranks sit on two nodes, the first half on one.
comm::Communicator two_nodes() {
  const auto world = comm::Communicator::world();
  return comm::Communicator::world(
      {.staging = comm::Staging::probe, .delays = {}, .node = 2 * world.rank() / world.size()});
}

TEST(Traffic, CountedIsTheFormula) {
  const auto world = two_nodes();
  const int ranks = world.size();
  const Index steps = 2, elements = 1001;
  for (const Index kv_heads : {24, 1}) {
    for (int degree = 1; degree <= ranks; ++degree) {
      if (ranks % degree != 0) continue;
      const auto model = small_model(24, kv_heads, 2, steps);  // a call of the fixture stands for a layer
      const Mesh mesh(world, make_plan(ulysses(degree), ranks, model, ranks / degree, 24));
      AttendFixture<float> fixture(mesh, model, 1);
      fixture.set_documents(0);
      world.ledger().reset();
      for (Index layer = 0; layer < steps; ++layer) {
        fixture.forward();
        fixture.backward();
      }
      {
        const auto label = world.ledger().phase("gradients");
        comm::all_reduce_sum(world, Exec(), Vector<double>("gradients", elements));
      }
      {
        const auto label = world.ledger().phase("loss");
        comm::sum(world, 1.0);
      }
      const TrafficModel traffic(mesh.plan(), mesh.rank(), world.nodes());
      auto expected = traffic.attention(model, sizeof(float), 1);
      expected.push_back(traffic.all_reduce("gradients", elements, sizeof(double)));
      expected.push_back(traffic.scalars("loss", 1));
      EXPECT_THAT(compare(world.ledger(), expected), testing::IsEmpty());
      EXPECT_EQ(expected.size(), degree > 1 ? 6u : 2u);
      expected.back().calls = 2;
      EXPECT_EQ(compare(world.ledger(), expected).size(), 1u);
      for (const auto& entry : fixture.timers.entries()) EXPECT_GT(entry.calls, 0) << entry.name;
      EXPECT_EQ(fixture.timers.entries().size(), degree > 1 ? 6u : 2u);
    }
  }
}

/// The exchange runs over as many ranks, under the same name, and sends as many bytes, but over the replicas
/// instead of the group. Results of a benchmark may look right; the tiers tell.
TEST(Traffic, AnotherCommunicatorOfTheSameSizeIsNoticed) {
  const auto world = two_nodes();
  const int ranks = world.size();
  if (ranks < 4 || ranks % 2 != 0) GTEST_SKIP() << "needs two nodes of two or more ranks";
  const int degree = ranks / 2;
  const auto model = small_model(24, 24, 2);
  const Mesh mesh(world, make_plan(ulysses(degree), ranks, model, 2, 24));
  const auto wrong = world.split(world.rank() % 2, world.rank(), "sequence");
  ASSERT_EQ(wrong.size(), mesh.sequence().size());
  const TrafficModel traffic(mesh.plan(), mesh.rank(), world.nodes());
  const auto expected = traffic.attention(model, sizeof(float), 1);
  const Matrix<float> send("send", degree * mesh.plan().rows(mesh.rank()), 3 * 24 * 2 / degree);
  const Matrix<float> receive("receive", send.extent(0), send.extent(1));
  const auto differs = [&](const comm::Communicator& communicator) {
    world.ledger().reset();
    const auto label = world.ledger().phase(phase::exchange_qkv_forward);
    comm::all_to_all(communicator, Exec(), send, receive);
    return !compare(world.ledger(), {expected.front()}).empty();
  };
  EXPECT_FALSE(differs(mesh.sequence()));
  EXPECT_TRUE(differs(wrong));
}

}  // namespace
}  // namespace minisp::parallel
