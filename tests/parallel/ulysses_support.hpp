// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A batch of q, k, v and dloss/do that is a function of (sequence, position, head, element), spread over the
// ranks as a block would write it, and gathered into the order of one rank for comparison.
#pragma once

#include "parallel/batch_partition.hpp"
#include "parallel/plan_support.hpp"
#include "parallel/ulysses_attend.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace minisp::parallel {

enum class Part { q, k, v, output_gradient };

/// Uniform in [-1, 1), by splitmix64 of the global index.
inline double value_at(Part part, Index sequence, Index position, Index head, Index element,
                       std::uint64_t seed) {
  std::uint64_t x = seed;
  for (const Index i : {static_cast<Index>(part), sequence, position, head, element}) {
    x += static_cast<std::uint64_t>(i) + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
  }
  return std::ldexp(static_cast<double>(x >> 11), -52) - 1.0;
}

/// What column c of a packed row of block b is: which of q, k, v, which head of the model, which element.
struct Column {
  Part part;
  int head;
  int element;
};
inline Column packed_column(const config::Architecture& model, int blocks, int b, Index c) {
  const int d = static_cast<int>(model.head_dim);
  const int q_heads = static_cast<int>(model.heads) / blocks;
  const int kv_heads = model.kv_heads >= blocks ? static_cast<int>(model.kv_heads) / blocks : 1;
  const int head = static_cast<int>(c) / d, element = static_cast<int>(c) % d;
  const int first_kv = b * static_cast<int>(model.kv_heads) / blocks;
  if (head < q_heads) return {Part::q, b * q_heads + head, element};
  if (head < q_heads + kv_heads) return {Part::k, first_kv + head - q_heads, element};
  return {Part::v, first_kv + head - q_heads - kv_heads, element};
}

/// Column in the fused projection's output (q heads, k heads, v heads).
inline Index fused_column(const config::Architecture& model, const Column& column) {
  const Index first = column.part == Part::q   ? 0
                      : column.part == Part::k ? model.heads
                                               : model.heads + model.kv_heads;
  return (first + column.head) * model.head_dim + column.element;
}

/// Results of attention in the order of one rank: rows (sequence of the batch, position).
struct Results {
  std::vector<double> output;        ///< (B S, h d)
  std::vector<double> qkv_gradient;  ///< (B S, (h + 2 kv) d)
};

/// Writes f(Shard's sequence, position, block, column) into a (blocks * rows, columns) matrix.
template <class T, class F>
void fill_blocks(const Plan& plan, int rank, const Matrix<T>& matrix, int blocks, F&& f) {
  const auto host = Kokkos::create_mirror_view(matrix);
  const Index rows = plan.rows(rank);
  for (int b = 0; b < blocks; ++b) {
    Index r = b * rows;
    for (const auto& shard : plan.shards(rank))
      for (Index p = shard.begin; p < shard.end; ++p, ++r)
        for (Index c = 0; c < static_cast<Index>(matrix.extent(1)); ++c)
          host(r, c) = static_cast<T>(f(shard.sequence, p, b, c));
  }
  Kokkos::deep_copy(matrix, host);
}

/// Calls f(sequence, position, block, column, value) for every element of such a matrix.
template <class T, class F>
void read_blocks(const Plan& plan, int rank, const Matrix<const T>& matrix, int blocks, F&& f) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), matrix);
  const Index rows = plan.rows(rank);
  for (int b = 0; b < blocks; ++b) {
    Index r = b * rows;
    for (const auto& shard : plan.shards(rank))
      for (Index p = shard.begin; p < shard.end; ++p, ++r)
        for (Index c = 0; c < static_cast<Index>(matrix.extent(1)); ++c)
          f(shard.sequence, p, b, c, static_cast<double>(host(r, c)));
  }
}

/// One model's attention on this rank.
template <class T>
struct AttendFixture {
  const Mesh& mesh;
  config::Architecture model;
  std::uint64_t seed;
  PhaseTimers timers;
  UlyssesAttend<T> attend;
  model::AttendState<T> state;
  int blocks;

  AttendFixture(const Mesh& mesh_, const config::Architecture& model_, std::uint64_t seed_)
      : mesh(mesh_),
        model(model_),
        seed(seed_),
        attend(mesh_, model_, timers),
        state(attend.allocate()),
        blocks(mesh_.plan().sequence_degree) {}

  /// `document_length` 0: every sequence is one document; else documents of about that length, which end at
  /// other positions in every sequence.
  void set_documents(Index document_length) {
    const auto& plan = mesh.plan();
    std::vector<std::int32_t> rows;
    for (Index s = mesh.group().sequence_begin; s < mesh.group().sequence_end; ++s)
      for (Index p = 0; p <= plan.sequence_length; ++p)
        rows.push_back(document_length > 0 && (p + s) % document_length == document_length - 1 ? 0 : 1);
    LocalBatch batch;
    partition_batch(plan, mesh.rank(), rows, document_length > 0 ? 0 : -1, batch);
    attend.set_documents(batch.document_starts);
  }

  /// Writes q, k, v and runs forward(). `change` is added to the key and value of one token.
  void forward(Index changed_sequence = -1, Index changed_position = -1) {
    fill_blocks(
        mesh.plan(), mesh.rank(), attend.packed_qkv(state), blocks, [&](Index s, Index p, int b, Index c) {
          const Column column = packed_column(model, blocks, b, c);
          const bool changed = s == changed_sequence && p == changed_position;
          return value_at(column.part, s, p, column.head, column.element, seed) + (changed ? 0.5 : 0.0);
        });
    attend.forward(Exec(), state);
  }

  /// Writes dloss/do, runs backward() and leaves what it returns in `gradient`.
  Matrix<const T> backward() {
    const Index q_heads = model.heads / blocks;
    fill_blocks(mesh.plan(), mesh.rank(), attend.own_output_gradient(), blocks,
                [&](Index s, Index p, int b, Index c) {
                  return value_at(Part::output_gradient, s, p, b * q_heads + c / model.head_dim,
                                  c % model.head_dim, seed);
                });
    return attend.backward(Exec(), state);
  }

  /// Adds this rank's part to the results of the batch.
  void add_output(Results& results) const {
    const auto& plan = mesh.plan();
    const Index width = model.q_size(), block_width = width / blocks;
    results.output.resize(static_cast<std::size_t>(plan.batch * plan.sequence_length * width), 0.0);
    read_blocks<T>(plan, mesh.rank(), state.own_output, blocks,
                   [&](Index s, Index p, int b, Index c, double v) {
                     results.output[static_cast<std::size_t>((s * plan.sequence_length + p) * width +
                                                             b * block_width + c)] += v;
                   });
  }
  void add_gradient(const Matrix<const T>& gradient, Results& results) const {
    const auto& plan = mesh.plan();
    const Index width = model.q_size() + 2 * model.kv_size();
    results.qkv_gradient.resize(static_cast<std::size_t>(plan.batch * plan.sequence_length * width), 0.0);
    read_blocks<T>(plan, mesh.rank(), gradient, blocks, [&](Index s, Index p, int b, Index c, double v) {
      const Index column = fused_column(model, packed_column(model, blocks, b, c));
      results.qkv_gradient[static_cast<std::size_t>((s * plan.sequence_length + p) * width + column)] += v;
    });
  }
};

/// ||a - b|| / ||b|| over the elements that are not zero in a's rank's part; NaN fails every comparison.
inline double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace minisp::parallel
