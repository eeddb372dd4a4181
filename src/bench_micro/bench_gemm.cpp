// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Matrix products through the adaptor against the libraries called directly, fp32. The shapes are those of
// the linear layers: forward x W^T, input gradient dy W, weight gradient dy^T x.
#include "bench_micro/timing.hpp"
#include "math/gemm.hpp"

#include <Kokkos_Random.hpp>
#include <benchmark/benchmark.h>
#include <cblas.h>
#ifdef MINISP_HAVE_ONEDNN
#include <dnnl.h>
#endif

#include <vector>

namespace minisp::bench_micro {
namespace {

using math::Op;

struct Product {
  Op op_a, op_b;
  int m, n, k;
  Matrix<float> a, b, c;

  Product(Op op_of_a, Op op_of_b, int rows, int columns, int inner)
      : op_a(op_of_a),
        op_b(op_of_b),
        m(rows),
        n(columns),
        k(inner),
        a("bench::a", op_a == Op::none ? m : k, op_a == Op::none ? k : m),
        b("bench::b", op_b == Op::none ? k : n, op_b == Op::none ? n : k),
        c("bench::c", m, n) {
    Kokkos::Random_XorShift64_Pool<Exec> random(1);
    Kokkos::fill_random(a, random, -1.0f, 1.0f);
    Kokkos::fill_random(b, random, -1.0f, 1.0f);
  }
  double flops() const { return 2.0 * m * n * k; }
  int lda() const { return static_cast<int>(row_stride(a)); }
  int ldb() const { return static_cast<int>(row_stride(b)); }

  void adaptor() const { math::gemm<float>(Exec(), op_a, op_b, 1.0f, a, b, 0.0f, c); }
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
  const Product product(op_a, op_b, static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                        static_cast<int>(state.range(2)));
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

}  // namespace
}  // namespace minisp::bench_micro
