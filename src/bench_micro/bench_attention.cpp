// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Causal attention, forward and backward, against the matrix product of the same run. Work counted: visible
// pairs once, 4 d flops a pair forward and 10 d backward.
#include "bench_micro/random_matrix.hpp"
#include "bench_micro/timing.hpp"
#include "model/attention.hpp"

#include <benchmark/benchmark.h>

#include <utility>

namespace minisp::bench_micro {
namespace {

model::AttentionMap causal(int length) {
  model::AttentionMap map;
  for (int i = 0; i < length; ++i) {
    map.query_row.push_back(i);
    map.key_row.push_back(i);
    map.key_begin.push_back(0);
    map.key_end.push_back(i + 1);
  }
  return map;
}

/// One problem: q, k, v in one packed buffer as a block of the model holds them.
template <class T>
struct CausalProblem {
  CausalProblem(int length, int heads, int kv_heads, int head_dim)
      : qkv(random_matrix<T>(length, (heads + 2 * kv_heads) * head_dim, limit)),
        dqkv("bench::dqkv", length, (heads + 2 * kv_heads) * head_dim),
        o("bench::o", length, heads * head_dim),
        dout(random_matrix<T>(length, heads * head_dim, limit)),
        lse("bench::lse", heads, length),
        attention(length, heads, kv_heads, head_dim),
        heads_(heads),
        kv_heads_(kv_heads),
        head_dim_(head_dim) {
    attention.set_map(causal(length));
  }
  void forward() {
    attention.forward(Exec(), part<const T>(qkv, 0, heads_), part<const T>(qkv, heads_, kv_heads_),
                      part<const T>(qkv, heads_ + kv_heads_, kv_heads_), part<T>(o, 0, heads_), lse);
  }
  void backward() {
    attention.backward(Exec(), part<const T>(qkv, 0, heads_), part<const T>(qkv, heads_, kv_heads_),
                       part<const T>(qkv, heads_ + kv_heads_, kv_heads_), part<const T>(o, 0, heads_),
                       part<const T>(dout, 0, heads_), lse, part<T>(dqkv, 0, heads_),
                       part<T>(dqkv, heads_, kv_heads_), part<T>(dqkv, heads_ + kv_heads_, kv_heads_));
  }
  double flops_per_dim() const { return double(attention.visible_pairs()) * heads_ * head_dim_; }

  static constexpr Accumulate<T> limit = static_cast<Accumulate<T>>(1.7);
  Matrix<T> qkv, dqkv, o, dout;
  Matrix<Accumulate<T>> lse;
  model::Attention<T> attention;

 private:
  template <class U>
  model::HeadRows<U> part(const Matrix<T>& x, int first, int count) const {
    return {x.data() + first * head_dim_, row_stride(x), count, head_dim_};
  }
  int heads_, kv_heads_, head_dim_;
};

/// Arguments: head size, length, query heads, K/V heads.
template <class T>
void attention(benchmark::State& state) {
  CausalProblem<T> problem(state.range(1), state.range(2), state.range(3), state.range(0));
  GemmYardstick<T> yardstick;
  problem.forward();
  problem.backward();
  std::vector<double> gemm, forward, backward;
  for (auto _ : state) {
    for (int i = 0; i < 3; ++i) gemm.push_back(seconds_of([&] { yardstick.run(); }));
    forward.push_back(seconds_of([&] { problem.forward(); }));
    backward.push_back(seconds_of([&] { problem.backward(); }));
    for (int i = 0; i < 3; ++i) gemm.push_back(seconds_of([&] { yardstick.run(); }));
    state.SetIterationTime(forward.back() + backward.back());
  }
  const double work = problem.flops_per_dim(), gemm_rate = GemmYardstick<T>::flops / median(gemm);
  const double t_forward = median(forward), t_backward = median(backward);
  state.counters["gemm_gflops"] = 1e-9 * gemm_rate;
  state.counters["gflops"] = 1e-9 * 14 * work / (t_forward + t_backward);
  state.counters["forward_ratio"] = 4 * work / t_forward / gemm_rate;
  state.counters["backward_ratio"] = 10 * work / t_backward / gemm_rate;
  state.counters["ratio"] = 14 * work / (t_forward + t_backward) / gemm_rate;
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"head_dim", "length", "heads", "kv_heads"})->UseManualTime()->Unit(benchmark::kMillisecond);
  for (int length : {2048, 8192})
    for (int head_dim : {64, 128})
      for (const auto& [heads, kv_heads] : {std::pair{2, 2}, std::pair{4, 1}})
        b->Args({head_dim, length, heads, kv_heads});
  b->Iterations(5);
}
BENCHMARK(attention<float>)->Apply(sizes);

/// bf16 against fp32, which differ in what is loaded and stored alone.
void attention_bfloat16(benchmark::State& state) {
  const auto length = state.range(1), heads = state.range(2), kv_heads = state.range(3), d = state.range(0);
  CausalProblem<float> wide(length, heads, kv_heads, d);
  CausalProblem<bfloat16> narrow(length, heads, kv_heads, d);
  std::vector<double> wide_seconds, narrow_seconds;
  const auto run = [](auto& problem) {
    return seconds_of([&] {
      problem.forward();
      problem.backward();
    });
  };
  run(wide), run(narrow);
  for (auto _ : state) {
    wide_seconds.push_back(run(wide));
    narrow_seconds.push_back(run(narrow));
    state.SetIterationTime(narrow_seconds.back());
  }
  state.counters["gflops"] = 1e-9 * 14 * narrow.flops_per_dim() / median(narrow_seconds);
  state.counters["fp32_gflops"] = 1e-9 * 14 * narrow.flops_per_dim() / median(wide_seconds);
  state.counters["ratio"] = median(wide_seconds) / median(narrow_seconds);
}
BENCHMARK(attention_bfloat16)->Apply(sizes);

}  // namespace
}  // namespace minisp::bench_micro
