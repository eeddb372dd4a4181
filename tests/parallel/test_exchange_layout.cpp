// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Where every element lies between the two exchanges: the buffer that attention reads is checked element by
// element, since a round trip would also bring back what was exchanged wrongly.
#include "comm/all_to_all.hpp"
#include "parallel/ulysses_support.hpp"

#include <gtest/gtest.h>

#include <set>

namespace minisp::parallel {
namespace {

struct Case {
  Index heads, kv_heads, sequences;
};

TEST(ExchangeLayout, AttentionRowsAreSourceRankThenItsRows) {
  const auto world = comm::Communicator::world();
  const int ranks = world.size();
  for (const Case& c : {Case{24, 24, 1}, Case{24, 24, 3}, Case{24, 1, 2}, Case{48, 2, 2}, Case{24, 12, 1}}) {
    for (int degree = 2; degree <= ranks; ++degree) {
      if (ranks % degree != 0) continue;
      if (c.heads % degree != 0 || (c.kv_heads % degree != 0 && degree % c.kv_heads != 0)) continue;
      const Index batch = c.sequences * (ranks / degree), length = 2 * degree;
      const auto model = small_model(c.heads, c.kv_heads, 2);
      const Mesh mesh(world, make_plan(ulysses(degree), ranks, model, batch, length));
      AttendFixture<double> fixture(mesh, model, 1);
      fixture.set_documents(0);
      fixture.forward();

      const auto received = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), fixture.state.qkv);
      const int me = mesh.sequence().rank();
      const Index shard = length / degree, rows = c.sequences * shard;
      ASSERT_EQ(static_cast<Index>(received.extent(0)), degree * rows);
      Index wrong = 0;
      std::set<double> values;
      for (Index row = 0; row < degree * rows; ++row)
        for (Index column = 0; column < static_cast<Index>(received.extent(1)); ++column) {
          const Index source = row / rows, own = row % rows;
          const Index sequence = mesh.group().sequence_begin + own / shard;
          const Index position = source * shard + own % shard;
          const Column what = packed_column(model, degree, me, column);
          wrong +=
              received(row, column) != value_at(what.part, sequence, position, what.head, what.element, 1);
          values.insert(received(row, column));
        }
      EXPECT_EQ(wrong, 0) << "K = " << degree << ", " << c.heads << "/" << c.kv_heads << " heads";
      // Every element has a value of its own, or the comparison would be blind to exchanged ones.
      EXPECT_EQ(values.size(), received.size());
    }
  }
}

/// The exchange of the output is the transpose of the exchange of its gradient (and likewise for q, k, v):
/// <A x, y> = <x, A' y>, both as UlyssesAttend does them. With one key a query (documents of one token) o =
/// v, so that the whole of forward is linear in v and the gradient of v is what the transpose gives.
TEST(ExchangeLayout, BackwardIsTheTransposeOfForward) {
  const auto world = comm::Communicator::world();
  const int ranks = world.size();
  const auto model = small_model(24, 24, 2);
  const Mesh mesh(world, make_plan(ulysses(0), ranks, model, 2, 24));
  AttendFixture<double> fixture(mesh, model, 2);
  fixture.set_documents(1);
  fixture.forward();
  Results results;
  fixture.add_output(results);
  fixture.add_gradient(fixture.backward(), results);
  const Index width = model.q_size();
  double forward = 0, backward = 0;  // <A v, dout>, <v, A' dout> over this rank's tokens
  Index wrong = 0;
  for (const auto& shard : mesh.plan().shards(mesh.rank()))
    for (Index p = shard.begin; p < shard.end; ++p)
      for (Index c = 0; c < width; ++c) {
        const Index row = shard.sequence * 24 + p;
        const double v = value_at(Part::v, shard.sequence, p, c / 2, c % 2, 2);
        const double dout = value_at(Part::output_gradient, shard.sequence, p, c / 2, c % 2, 2);
        const double o = results.output[static_cast<std::size_t>(row * width + c)];
        const double dv = results.qkv_gradient[static_cast<std::size_t>(row * 3 * width + 2 * width + c)];
        forward += o * dout;
        backward += v * dv;
        // softmax of one score is exactly 1 up to the rounding of exp
        wrong += std::abs(o - v) > 1e-14 || std::abs(dv - dout) > 1e-14;
      }
  EXPECT_EQ(wrong, 0);
  EXPECT_NEAR(forward, backward, 1e-12);
}

}  // namespace
}  // namespace minisp::parallel
