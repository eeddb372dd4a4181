// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Matrix products through the adaptor against the libraries called directly, fp32. The shapes are those of
// the linear layers: forward x W^T, input gradient dy W, weight gradient dy^T x.
#include "bench_micro/random_matrix.hpp"
#include "bench_micro/timing.hpp"
#include "math/gemm.hpp"
#include "math/gemm_widened.hpp"

#include <benchmark/benchmark.h>
#include <cblas.h>
#ifdef MINISP_HAVE_ONEDNN
#include <dnnl.h>
#endif

#include <vector>

namespace minisp::bench_micro {
namespace {

using math::Op;

template <class T>
struct Product {
  Op op_a, op_b;
  int m, n, k;
  Matrix<T> a, b, c;

  Product(Op op_of_a, Op op_of_b, int rows, int columns, int inner)
      : op_a(op_of_a),
        op_b(op_of_b),
        m(rows),
        n(columns),
        k(inner),
        a(random_matrix<T>(op_a == Op::none ? m : k, op_a == Op::none ? k : m, 1)),
        b(random_matrix<T>(op_b == Op::none ? k : n, op_b == Op::none ? n : k, 1)),
        c("bench::c", m, n) {}
  Product(Op op_of_a, Op op_of_b, const benchmark::State& state)
      : Product(op_of_a, op_of_b, static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                static_cast<int>(state.range(2))) {}
  double flops() const { return 2.0 * m * n * k; }
  int lda() const { return static_cast<int>(row_stride(a)); }
  int ldb() const { return static_cast<int>(row_stride(b)); }

  void adaptor() const { math::gemm<T>(Exec(), op_a, op_b, 1, a, b, 0, c); }
  void blas() const {
    const auto op = [](Op o) { return o == Op::none ? CblasNoTrans : CblasTrans; };
    cblas_sgemm(CblasRowMajor, op(op_a), op(op_b), m, n, k, 1.0f, a.data(), lda(), b.data(), ldb(), 0.0f,
                c.data(), n);
  }
#ifdef MINISP_HAVE_ONEDNN
  void onednn() const {
    const auto op = [](Op o) { return o == Op::none ? 'N' : 'T'; };
    dnnl_sgemm(op(op_a), op(op_b), m, n, k, 1.0f, a.data(), lda(), b.data(), ldb(), 0.0f, c.data(), n);
  }
#endif
};

void gemm(benchmark::State& state, Op op_a, Op op_b) {
  const Product<float> product(op_a, op_b, state);
  product.adaptor();
  product.blas();
  std::vector<double> adaptor, blas, onednn;
  const auto run_adaptor = [&] { adaptor.push_back(seconds_of([&] { product.adaptor(); })); };
  for (auto _ : state) {
    // What runs second finds the caches warm with the same matrices: each is second as often as the other.
    blas.push_back(seconds_of([&] { product.blas(); }));
    run_adaptor();
#ifdef MINISP_HAVE_ONEDNN
    onednn.push_back(seconds_of([&] { product.onednn(); }));
    blas.push_back(seconds_of([&] { product.blas(); }));
    onednn.push_back(seconds_of([&] { product.onednn(); }));
#else
    blas.push_back(seconds_of([&] { product.blas(); }));
#endif
    run_adaptor();
    state.SetIterationTime(adaptor.back());
  }
  const double own = median(adaptor), direct_blas = median(blas);
  const double direct_onednn = onednn.empty() ? direct_blas : median(onednn);
  state.counters["gflops"] = 1e-9 * product.flops() / own;
  state.counters["blas_gflops"] = 1e-9 * product.flops() / direct_blas;
  state.counters["onednn_gflops"] = onednn.empty() ? 0 : 1e-9 * product.flops() / direct_onednn;
  state.counters["ratio"] = (direct_blas < direct_onednn ? direct_blas : direct_onednn) / own;
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"m", "n", "k"})->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(30);
  b->Args({1024, 1024, 1024})->Args({2048, 512, 512})->Args({2048, 2048, 512})->Args({512, 512, 2048});
}
BENCHMARK_CAPTURE(gemm, forward, Op::none, Op::transpose)->Apply(sizes);
BENCHMARK_CAPTURE(gemm, input_gradient, Op::none, Op::none)->Apply(sizes);
BENCHMARK_CAPTURE(gemm, weight_gradient, Op::transpose, Op::none)->Apply(sizes);

/// bf16 through the adaptor, and by way of fp32 tiles as on processors without bf16, against fp32 through the
/// adaptor.
void gemm_bfloat16(benchmark::State& state, Op op_a, Op op_b) {
  const Product<float> wide(op_a, op_b, state);
  const Product<bfloat16> narrow(op_a, op_b, state);
  const auto by_tiles = [&] {
    math::gemm_widened<bfloat16, bfloat16>(Exec(), op_a, op_b, 1, narrow.a, narrow.b, 0, narrow.c);
  };
  std::vector<double> fp32, bf16, widened;
  wide.adaptor();
  narrow.adaptor();
  by_tiles();
  for (auto _ : state) {
    fp32.push_back(seconds_of([&] { wide.adaptor(); }));
    bf16.push_back(seconds_of([&] { narrow.adaptor(); }));
    widened.push_back(seconds_of(by_tiles));
    state.SetIterationTime(bf16.back());
  }
  state.counters["gflops"] = 1e-9 * wide.flops() / median(bf16);
  state.counters["fp32_gflops"] = 1e-9 * wide.flops() / median(fp32);
  state.counters["ratio"] = median(fp32) / median(bf16);
  state.counters["widened_ratio"] = median(fp32) / median(widened);
}
BENCHMARK_CAPTURE(gemm_bfloat16, forward, Op::none, Op::transpose)->Apply(sizes);
BENCHMARK_CAPTURE(gemm_bfloat16, input_gradient, Op::none, Op::none)->Apply(sizes);
BENCHMARK_CAPTURE(gemm_bfloat16, weight_gradient, Op::transpose, Op::none)->Apply(sizes);

}  // namespace
}  // namespace minisp::bench_micro
