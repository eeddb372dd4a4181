// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Kernels bound by memory bandwidth, fp32 (what packs also in bf16), each against a copy of the same run.
// Bytes counted are those that the kernel's definition needs: every input read once, every output written
// once, what is added to both.
#include "bench_micro/timing.hpp"
#include "math/column_sum.hpp"
#include "model/cross_entropy.hpp"
#include "model/embedding.hpp"
#include "model/layer_norm.hpp"
#include "model/linear.hpp"
#include "model/mlp.hpp"
#include "model/rms_norm.hpp"
#include "model/rope.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

namespace minisp::bench_micro {
namespace {

using namespace model;
using T = float;

constexpr Index rows = 4096, columns = 2048;  // 32 MiB a matrix
constexpr double one = 1.0 * rows * columns;  // elements of one matrix

/// Numbers in [-1, 1) without a pattern that matters.
template <class U = T>
Matrix<U> mixed_matrix(Index m, Index n) {
  const Matrix<U> x(uninitialized("bench"), m, n);
  U* const values = x.data();
  Kokkos::parallel_for(
      "bench::fill", RowPolicy(0, m * n), KOKKOS_LAMBDA(const Index i) {
        const auto hash = static_cast<std::int32_t>(2654435761u * static_cast<std::uint32_t>(i));
        values[i] = static_cast<U>(static_cast<T>(hash) * T(0x1p-31));
      });
  return x;
}
template <class U = T>
Vector<U> ones(Index n) {
  Vector<U> x("bench", n);
  Kokkos::deep_copy(x, U(1.0f));
  return x;
}

void copy_loop(const Matrix<T>& from, const Matrix<T>& to) {
  const T* const source = from.data();
  T* const target = to.data();
  Kokkos::parallel_for(
      "bench::copy", RowPolicy(0, rows * columns), KOKKOS_LAMBDA(const Index i) { target[i] = source[i]; });
}

/// A copy of one matrix to another, by the library and by a loop in turn.
class CopyYardstick {
 public:
  CopyYardstick() : from_(mixed_matrix(rows, columns)), to_(mixed_matrix(rows, columns)) {}
  void by_library() const { Kokkos::deep_copy(Exec(), to_, from_); }
  void by_loop() const { copy_loop(from_, to_); }

 private:
  Matrix<T> from_, to_;
};

/// `elements` is what the call has to move.
template <class Problem>
void kernel(benchmark::State& state, double elements, void (*call)(const Problem&)) {
  const Problem problem;
  const CopyYardstick copy;
  call(problem);
  // The kernel runs between the copies: each finds the caches as the other left them.
  std::vector<double> library, loop, own;
  for (auto _ : state) {
    library.push_back(seconds_of([&] { copy.by_library(); }));
    own.push_back(seconds_of([&] { call(problem); }));
    loop.push_back(seconds_of([&] { copy.by_loop(); }));
    own.push_back(seconds_of([&] { call(problem); }));
    state.SetIterationTime(own.back());
  }
  const double copy_rate = 2 * one * sizeof(T) / std::min(median(library), median(loop));
  const double rate = elements * sizeof(T) / median(own);
  state.counters["copy_gb_per_s"] = 1e-9 * copy_rate;
  state.counters["gb_per_s"] = 1e-9 * rate;
  state.counters["ratio"] = rate / copy_rate;
}

template <class Problem>
benchmark::internal::Benchmark* kernel_benchmark(const char* name, double elements,
                                                 void (*call)(const Problem&)) {
  return benchmark::RegisterBenchmark(name, kernel<Problem>, elements, call)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(15);
}

struct Norm {
  Exec exec;
  Matrix<T> x = mixed_matrix(rows, columns), y = mixed_matrix(rows, columns),
            out = mixed_matrix(rows, columns), sum = mixed_matrix(rows, columns);
  Vector<T> weight = ones(columns), bias = ones(columns), mean = ones(rows), inverse = ones(rows);
  Vector<T> dweight = ones(columns), dbias = ones(columns);
  Vector<T> workspace = ones(math::column_sum_workspace(rows, 2 * columns));
};

struct Mlp {
  Exec exec;
  Matrix<T> gate_up = mixed_matrix(rows, 2 * columns), dgate_up = mixed_matrix(rows, 2 * columns);
  Matrix<T> x = mixed_matrix(rows, columns), act = mixed_matrix(rows, columns),
            dact = mixed_matrix(rows, columns), dx = mixed_matrix(rows, columns);
};

/// Twice as many query heads as K/V heads, 2048 columns in all. Heads of 64 as Llama-3.2-1B has them, and of
/// 128 as Qwen3 has them with norms.
template <int blocks, int head_dim, class U = T>
struct Heads {
  Exec exec;
  HeadLayout layout{blocks, 1024 / head_dim, 512 / head_dim, head_dim};
  Matrix<U> fused = mixed_matrix<U>(rows, columns), dfused = mixed_matrix<U>(rows, columns);
  Matrix<U> packed = mixed_matrix<U>(blocks * rows, layout.packed_width());
  Vector<int> positions{"bench", rows};
  RopeTable<U> table = make_rope_table<U>(rope_frequencies(1e4, head_dim, {}), rows);
  HeadNorm<U> norm{ones<U>(head_dim), ones<U>(head_dim), 1e-6};
  HeadNormGradient<U> gradient{ones(head_dim), ones(head_dim), ones(head_norm_workspace(rows, layout))};

  Heads() {
    const auto host = Kokkos::create_mirror_view(positions);
    for (Index r = 0; r < rows; ++r) host(r) = static_cast<int>(r);
    Kokkos::deep_copy(positions, host);
  }
};
template <int blocks, class U = T>
void rope_forward(const Heads<blocks, 64, U>& p) {
  rope_pack_forward<U>(p.exec, p.layout, p.fused, p.positions, p.table, {}, p.packed);
}
template <int blocks, class U = T>
void rope_backward(const Heads<blocks, 64, U>& p) {
  rope_pack_backward<U>(p.exec, p.layout, p.packed, p.positions, p.table, {}, {}, p.dfused, {});
}
template <int blocks>
void head_norm_rope_forward(const Heads<blocks, 128>& p) {
  rope_pack_forward<T>(p.exec, p.layout, p.fused, p.positions, p.table, p.norm, p.packed);
}
template <int blocks>
void head_norm_rope_backward(const Heads<blocks, 128>& p) {
  rope_pack_backward<T>(p.exec, p.layout, p.packed, p.positions, p.table, p.norm, p.fused, p.dfused,
                        p.gradient);
}

struct Tokens {
  static constexpr int vocabulary = 8192;
  Exec exec;
  Matrix<T> table = mixed_matrix(vocabulary, columns), out = mixed_matrix(rows, columns);
  Vector<int> tokens{"bench", rows};
  TokenIndex index{rows};

  Tokens() {
    HostVector<int> host("bench", rows);
    for (Index r = 0; r < rows; ++r)
      host(r) = static_cast<int>(2654435761u * static_cast<unsigned>(r) % vocabulary);
    Kokkos::deep_copy(tokens, host);
    index.set(host);
  }
};

/// As many logits as elements elsewhere, in rows as long as a vocabulary.
template <int vocabulary>
struct Logits {
  Exec exec;
  static constexpr Index tile_rows = rows * columns / vocabulary;
  Matrix<T> logits = mixed_matrix(tile_rows, vocabulary);
  Vector<int> labels{"bench", tile_rows};
  Vector<T> losses = ones(tile_rows);
};
template <int vocabulary>
void softmax(const Logits<vocabulary>& p) {
  softmax_cross_entropy<T>(p.exec, p.logits, p.labels, 1.0, p.logits, p.losses);
}

[[maybe_unused]] const benchmark::internal::Benchmark* const kernel_benchmarks[] = {
    kernel_benchmark<Norm>(
        "rms_norm_forward", 2 * one,
        [](const Norm& p) { rms_norm_forward<T>(p.exec, p.x, p.weight, 1e-5, p.out, p.inverse); }),
    kernel_benchmark<Norm>("residual_rms_norm_forward", 4 * one,
                           [](const Norm& p) {
                             residual_rms_norm_forward<T>(p.exec, p.x, p.y, p.weight, 1e-5, p.sum, p.out,
                                                          p.inverse);
                           }),
    kernel_benchmark<Norm>(
        "rms_norm_recompute", 2 * one,
        [](const Norm& p) { rms_norm_recompute<T>(p.exec, p.x, p.weight, p.inverse, p.out); }),
    kernel_benchmark<Norm>("rms_norm_backward", 4 * one,
                           [](const Norm& p) {
                             rms_norm_backward<T>(p.exec, p.x, p.weight, p.inverse, p.y, Accumulation::add,
                                                  p.out, p.workspace, p.dweight);
                           }),
    kernel_benchmark<Norm>("layer_norm_forward", 2 * one,
                           [](const Norm& p) {
                             layer_norm_forward<T>(p.exec, p.x, p.weight, p.bias, 1e-5, p.out, p.mean,
                                                   p.inverse);
                           }),
    kernel_benchmark<Norm>("residual_layer_norm_forward", 4 * one,
                           [](const Norm& p) {
                             residual_layer_norm_forward<T>(p.exec, p.x, p.y, p.weight, p.bias, 1e-5, p.sum,
                                                            p.out, p.mean, p.inverse);
                           }),
    kernel_benchmark<Norm>("layer_norm_recompute", 2 * one,
                           [](const Norm& p) {
                             layer_norm_recompute<T>(p.exec, p.x, p.weight, p.bias, p.mean, p.inverse, p.out);
                           }),
    kernel_benchmark<Norm>("layer_norm_backward", 4 * one,
                           [](const Norm& p) {
                             layer_norm_backward<T>(p.exec, p.x, p.weight, p.mean, p.inverse, p.y,
                                                    Accumulation::add, p.out, p.workspace, p.dweight,
                                                    p.dbias);
                           }),
    kernel_benchmark<Norm>("bias_gradient", one,
                           [](const Norm& p) { linear_backward_bias<T>(p.exec, p.x, p.workspace, p.dbias); }),
    kernel_benchmark<Mlp>("swiglu_forward", 3 * one,
                          [](const Mlp& p) { swiglu_forward<T>(p.exec, p.gate_up, p.act); }),
    kernel_benchmark<Mlp>(
        "swiglu_backward", 6 * one,
        [](const Mlp& p) { swiglu_backward<T>(p.exec, p.gate_up, p.dact, p.act, p.dgate_up); }),
    kernel_benchmark<Mlp>("gelu_forward", 2 * one,
                          [](const Mlp& p) { gelu_tanh_forward<T>(p.exec, p.x, p.act); }),
    kernel_benchmark<Mlp>("gelu_backward", 4 * one,
                          [](const Mlp& p) { gelu_tanh_backward<T>(p.exec, p.x, p.dact, p.act, p.dx); }),
    kernel_benchmark<Heads<1, 64>>("rope_forward/blocks:1", 2 * one, rope_forward<1>),
    kernel_benchmark<Heads<1, 64>>("rope_backward/blocks:1", 2 * one, rope_backward<1>),
    kernel_benchmark<Heads<4, 64>>("rope_forward/blocks:4", 2 * one, rope_forward<4>),
    kernel_benchmark<Heads<4, 64>>("rope_backward/blocks:4", 2 * one, rope_backward<4>),
    kernel_benchmark<Heads<4, 64, bfloat16>>("rope_forward_bfloat16/blocks:4", one,
                                             rope_forward<4, bfloat16>),
    kernel_benchmark<Heads<4, 64, bfloat16>>("rope_backward_bfloat16/blocks:4", one,
                                             rope_backward<4, bfloat16>),
    kernel_benchmark<Heads<4, 128>>("head_norm_rope_forward/blocks:4", 2 * one, head_norm_rope_forward<4>),
    // The norm reads q and k once more, 3/4 of the columns.
    kernel_benchmark<Heads<4, 128>>("head_norm_rope_backward/blocks:4", 2.75 * one,
                                    head_norm_rope_backward<4>),
    // In place, v (1/4 of the columns) is not touched.
    kernel_benchmark<Heads<1, 64>>("rope_forward_in_place/blocks:1", 1.5 * one,
                                   [](const Heads<1, 64>& p) {
                                     rope_pack_forward<T>(p.exec, p.layout, p.fused, p.positions, p.table, {},
                                                          p.fused);
                                   }),
    kernel_benchmark<Tokens>("embedding_forward", 2 * one,
                             [](const Tokens& p) { embedding_forward<T>(p.exec, p.tokens, p.table, p.out); }),
    kernel_benchmark<Tokens>("embedding_backward", 3 * one,
                             [](const Tokens& p) { embedding_backward<T>(p.exec, p.index, p.out, p.table); }),
    kernel_benchmark<Logits<8192>>("softmax_cross_entropy/vocabulary:8192", 2 * one, softmax<8192>),
    kernel_benchmark<Logits<131072>>("softmax_cross_entropy/vocabulary:131072", 2 * one, softmax<131072>),
};

}  // namespace
}  // namespace minisp::bench_micro
