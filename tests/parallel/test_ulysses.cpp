// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Attention over the ranks of a group against attention after its definition.
// Tolerances: sums of up to 24 terms in another order, a few roundings each; fp64 1e-14, fp32 1e-6.
#include "comm/scalars.hpp"
#include "parallel/ulysses_support.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace minisp::parallel {
namespace {

constexpr Index length = 24;

/// One head of one sequence after the definition: o_i = sum_j p_ij v_j, p = softmax(q k^T / sqrt(d)) over the
/// keys of i's document up to i, and with the gradient g of o: dv_j = sum_i p_ij g_i,
/// ds_ij = p_ij (g_i v_j - sum_l p_il g_i v_l), dq_i = sum_j ds_ij k_j / sqrt(d), dk_j = sum_i ds_ij q_i /
/// sqrt(d).
void naive_head(const config::Architecture& model, Index sequence, Index head, Index document_length,
                std::uint64_t seed, Results& results) {
  const Index d = model.head_dim, kv = head * model.kv_heads / model.heads;
  const Index width = model.q_size(), fused = width + 2 * model.kv_size();
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  std::vector<double> values[4];  // of q, k, v and g, hashed once
  for (const Part part : {Part::q, Part::k, Part::v, Part::output_gradient})
    for (Index p = 0; p < length; ++p)
      for (Index e = 0; e < d; ++e)
        values[static_cast<int>(part)].push_back(
            value_at(part, sequence, p, part == Part::k || part == Part::v ? kv : head, e, seed));
  const auto of = [&](Part part, Index p, Index e) {
    return values[static_cast<int>(part)][static_cast<std::size_t>(p * d + e)];
  };
  const auto gradient = [&](Part part, Index p, Index e) -> double& {
    const Column column{part, static_cast<int>(part == Part::q ? head : kv), static_cast<int>(e)};
    return results.qkv_gradient[static_cast<std::size_t>((sequence * length + p) * fused +
                                                         fused_column(model, column))];
  };
  const auto dot = [&](Part a, Index i, Part b, Index j) {
    double sum = 0;
    for (Index e = 0; e < d; ++e) sum += of(a, i, e) * of(b, j, e);
    return sum;
  };
  Index begin = 0;
  for (Index i = 0; i < length; ++i) {
    std::vector<double> p(static_cast<std::size_t>(i + 1)), dp(p.size());
    double sum = 0, mean = 0;
    for (Index j = begin; j <= i; ++j)
      sum += p[static_cast<std::size_t>(j)] = std::exp(scale * dot(Part::q, i, Part::k, j));
    for (Index j = begin; j <= i; ++j) {
      const auto at = static_cast<std::size_t>(j);
      p[at] /= sum;
      dp[at] = dot(Part::output_gradient, i, Part::v, j);
      mean += p[at] * dp[at];
    }
    for (Index j = begin; j <= i; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const double ds = scale * p[at] * (dp[at] - mean);
      for (Index e = 0; e < d; ++e) {
        results.output[static_cast<std::size_t>((sequence * length + i) * width + head * d + e)] +=
            p[at] * of(Part::v, j, e);
        gradient(Part::q, i, e) += ds * of(Part::k, j, e);
        gradient(Part::k, j, e) += ds * of(Part::q, i, e);
        gradient(Part::v, j, e) += p[at] * of(Part::output_gradient, i, e);
      }
    }
    if (document_length > 0 && (i + sequence) % document_length == document_length - 1) begin = i + 1;
  }
}

/// The reference's rows of this rank's tokens; zero elsewhere.
Results own_part(const Mesh& mesh, const Results& all) {
  Results own;
  own.output.resize(all.output.size(), 0.0);
  own.qkv_gradient.resize(all.qkv_gradient.size(), 0.0);
  const auto rows = static_cast<std::size_t>(mesh.plan().batch * mesh.plan().sequence_length);
  for (const auto& shard : mesh.plan().shards(mesh.rank()))
    for (Index p = shard.begin; p < shard.end; ++p) {
      const auto row = static_cast<std::size_t>(shard.sequence * mesh.plan().sequence_length + p);
      const auto copy = [&](const std::vector<double>& from, std::vector<double>& to) {
        const std::size_t width = from.size() / rows;
        std::copy_n(from.data() + row * width, width, to.data() + row * width);
      };
      copy(all.output, own.output);
      copy(all.qkv_gradient, own.qkv_gradient);
    }
  return own;
}

/// The results of this rank's tokens, zero elsewhere.
Results naive(const Mesh& mesh, const config::Architecture& model, Index document_length,
              std::uint64_t seed) {
  const auto rows = static_cast<std::size_t>(mesh.plan().batch * length);
  Results results;
  results.output.resize(rows * static_cast<std::size_t>(model.q_size()), 0.0);
  results.qkv_gradient.resize(rows * static_cast<std::size_t>(model.q_size() + 2 * model.kv_size()), 0.0);
  for (Index sequence = mesh.group().sequence_begin; sequence < mesh.group().sequence_end; ++sequence)
    for (Index head = 0; head < model.heads; ++head)
      naive_head(model, sequence, head, document_length, seed, results);
  return own_part(mesh, results);
}

template <class T>
void expect_right(const comm::Communicator& world, const Plan& plan, const config::Architecture& model,
                  Index document_length, double tolerance) {
  const Mesh mesh(world, plan);
  AttendFixture<T> fixture(mesh, model, 3);
  fixture.set_documents(document_length);
  Results results;
  fixture.forward();
  fixture.add_output(results);
  fixture.add_gradient(fixture.backward(), results);
  const auto expected = naive(mesh, model, document_length, 3);
  const auto what = [&] {
    return testing::Message() << "N = " << plan.ranks << ", B = " << plan.batch
                              << ", K = " << plan.sequence_degree << ", heads " << model.heads << "/"
                              << model.kv_heads << ", documents of " << document_length;
  };
  EXPECT_LE(relative_error(results.output, expected.output), tolerance) << what();
  EXPECT_LE(relative_error(results.qkv_gradient, expected.qkv_gradient), tolerance) << what();
}

/// Heads, K/V heads: as many, grouped, fewer than ranks (replicated, gradients summed), one.
const std::pair<Index, Index> head_counts[] = {{24, 24}, {24, 8}, {24, 12}, {24, 2}, {24, 1}};

bool fits(const config::Architecture& model, Index degree) {
  return model.kv_heads % degree == 0 || degree % model.kv_heads == 0;
}

TEST(Ulysses, EveryDegreeEqualsOneRank) {
  const auto world = comm::Communicator::world();
  const int ranks = world.size();
  for (const auto& [heads, kv_heads] : head_counts)
    for (int degree = 1; degree <= ranks; ++degree) {
      const auto model = small_model(heads, kv_heads);
      if (ranks % degree != 0 || !fits(model, degree)) continue;
      const Index batch = 2 * ranks / degree;  // two sequences a group
      const auto plan = make_plan(ulysses(degree), ranks, model, batch, length);
      // Documents end on and off the edges of shards (5 and the shard lengths 24 / K differ).
      for (const Index document_length : {0, 5}) {
        expect_right<double>(world, plan, model, document_length, 1e-14);
        expect_right<float>(world, plan, model, document_length, 1e-6);
      }
    }
}

TEST(Basp, EveryBatchEqualsOneRank) {
  const auto world = comm::Communicator::world();
  const int ranks = world.size();
  for (Index batch = 1; batch <= 2 * ranks; ++batch) {
    if (batch <= ranks ? ranks % batch != 0 : batch % ranks != 0) continue;
    const auto model = small_model(24, 24);
    const auto plan = make_plan(basp(), ranks, model, batch, length);
    expect_right<double>(world, plan, model, 7, 1e-14);
  }
}

/// Where ranks sit, and which process is which rank, changes nothing.
TEST(Ulysses, PermutedRanksComputeTheSame) {
  const auto nodes = comm::Communicator::world(
      {.staging = comm::Staging::always, .delays = {}, .node = comm::Communicator::world().rank() % 2});
  const auto permuted = nodes.split(0, nodes.rank() * 5 % (nodes.size() + 1), "world");
  const auto model = small_model(24, 24);
  for (const Index batch : {Index{1}, Index{permuted.size()}})
    expect_right<double>(permuted, make_plan(basp(), permuted.size(), model, batch, length), model, 5, 1e-14);
}

/// Two models with other head counts share nothing.
TEST(Ulysses, TwoModelsInOneProcess) {
  const auto world = comm::Communicator::world();
  const auto first = small_model(24, 24, 4), second = small_model(48, 1, 2);
  const auto plan = make_plan(ulysses(0), world.size(), first, 2, length);
  const Mesh mesh(world, plan);
  AttendFixture<double> a(mesh, first, 3), b(mesh, second, 4);
  a.set_documents(0);
  b.set_documents(5);
  a.forward();
  b.forward();
  Results of_a, of_b;
  a.add_gradient(a.backward(), of_a);
  b.add_gradient(b.backward(), of_b);
  EXPECT_LE(relative_error(of_a.qkv_gradient, naive(mesh, first, 0, 3).qkv_gradient), 1e-14);
  EXPECT_LE(relative_error(of_b.qkv_gradient, naive(mesh, second, 5, 4).qkv_gradient), 1e-14);
}

/// Layers share the buffers that are sent from: what one layer keeps is not touched by the next.
TEST(Ulysses, LayersShareBuffersButNotStates) {
  const auto world = comm::Communicator::world();
  const auto model = small_model(24, 24);
  const Mesh mesh(world, make_plan(ulysses(0), world.size(), model, 2, length));
  AttendFixture<double> fixture(mesh, model, 3);
  fixture.set_documents(0);
  fixture.forward();
  const auto first = fixture.state;
  fixture.seed = 4;
  fixture.state = fixture.attend.allocate();
  fixture.forward();
  fixture.backward();
  fixture.seed = 3;
  fixture.state = first;
  Results results;
  fixture.add_output(results);
  fixture.add_gradient(fixture.backward(), results);
  const auto expected = naive(mesh, model, 0, 3);
  EXPECT_LE(relative_error(results.output, expected.output), 1e-14);
  EXPECT_LE(relative_error(results.qkv_gradient, expected.qkv_gradient), 1e-14);
}

/// Calls f(sequence, position, changed) for every token of this rank, where `changed` says whether its output
/// has other bits after the token (sequence 0, `position`) was changed.
template <class F>
void for_each_change(const Mesh& mesh, const config::Architecture& model, Index document_length,
                     Index position, F&& f) {
  AttendFixture<double> fixture(mesh, model, 3);
  fixture.set_documents(document_length);
  Results before, after;
  fixture.forward();
  fixture.add_output(before);
  fixture.forward(0, position);
  fixture.add_output(after);
  const auto width = static_cast<std::size_t>(model.q_size());
  for (const auto& shard : mesh.plan().shards(mesh.rank()))
    for (Index p = shard.begin; p < shard.end; ++p) {
      const auto row = static_cast<std::size_t>(shard.sequence * length + p) * width;
      f(shard.sequence, p,
        std::memcmp(before.output.data() + row, after.output.data() + row, width * sizeof(double)) != 0);
    }
}

TEST(Ulysses, ATokenReachesLaterOnesOfItsDocumentOnly) {
  const auto world = comm::Communicator::world();
  const auto model = small_model(24, 24);
  const Mesh mesh(world, make_plan(ulysses(0), world.size(), model, 2, length));
  // Documents of 6 tokens end on the shards' edges for K = 2 and 4; those of 5 do not.
  for (const Index document_length : {Index{0}, Index{5}, Index{6}})
    for (const Index position : {Index{0}, Index{5}, Index{6}, Index{11}, Index{12}, Index{23}})
      for_each_change(mesh, model, document_length, position, [&](Index sequence, Index p, bool changed) {
        const Index n = document_length > 0 ? document_length : 2 * length;
        const bool reached = sequence == 0 && p >= position && p / n == position / n;
        EXPECT_EQ(changed, reached) << "token " << position << ", documents of " << document_length
                                    << ": sequence " << sequence << ", position " << p;
      });
}

TEST(Ulysses, MemoryIsTheFormula) {
  const auto world = comm::Communicator::world();
  for (const Index kv_heads : {24, 1}) {
    const auto model = small_model(24, kv_heads);
    const Mesh mesh(world, make_plan(ulysses(0), world.size(), model, 2, length));
    const AttendFixture<float> fixture(mesh, model, 3);
    EXPECT_EQ(fixture.attend.shared_bytes(),
              attend_shared_bytes(mesh.plan(), mesh.rank(), model, sizeof(float)));
    const auto& state = fixture.state;
    const bool aliased = state.own_output.data() == state.output.data();
    EXPECT_EQ(aliased, world.size() == 1);
    const std::size_t elements =
        state.qkv.size() + state.output.size() + state.lse.size() + (aliased ? 0 : state.own_output.size());
    const auto bytes = attend_state_bytes(mesh.plan(), mesh.rank(), model, sizeof(float), sizeof(float));
    EXPECT_EQ(elements * sizeof(float), bytes.kept + bytes.made);
  }
}

TEST(Mesh, APlanForOtherRanksIsRefused) {
  const auto world = comm::Communicator::world();
  const auto plan = make_plan(ulysses(1), world.size() + 1, small_model(2, 2), world.size() + 1, 8);
  EXPECT_THROW(Mesh(world, plan), std::invalid_argument);
}

}  // namespace
}  // namespace minisp::parallel
