// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/gemm.hpp"

#include "util/error.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <type_traits>

#if defined(MINISP_HAVE_CUBLAS)
#include "math/gemm_cublas.hpp"
#elif defined(MINISP_HAVE_KOKKOS_KERNELS)
#include <KokkosBlas3_gemm.hpp>
#else
#include <cblas.h>
#endif
#ifdef MINISP_HAVE_ONEDNN
#include "math/gemm_onednn.hpp"

#include <omp.h>
#endif
#include "math/gemm_widened.hpp"

#include <fmt/format.h>

#include <dlfcn.h>

namespace minisp::math {

namespace {

constexpr bool on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;
#ifdef MINISP_HAVE_CUBLAS
constexpr bool has_cublas = true;
#else
constexpr bool has_cublas = false;
#endif
/// Kokkos Kernels has no product of bf16 that sums in fp32.
template <class T>
constexpr bool can_multiply = on_host || has_cublas || !is_mixed<T>;

template <class T, class C>
void check_shapes(Op op_a, Op op_b, const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<C>& c) {
  const auto m = op_a == Op::none ? a.extent(0) : a.extent(1);
  const auto k = op_a == Op::none ? a.extent(1) : a.extent(0);
  const auto k_b = op_b == Op::none ? b.extent(0) : b.extent(1);
  const auto n = op_b == Op::none ? b.extent(1) : b.extent(0);
  if (k != k_b || c.extent(0) != m || c.extent(1) != n)
    throw std::invalid_argument(
        fmt::format("gemm: op(A) {}x{}, op(B) {}x{}, C {}x{}", m, k, k_b, n, c.extent(0), c.extent(1)));
}

/// C = beta C, C not read when beta is 0: what is left of a product with k = 0, which libraries refuse or
/// skip.
template <class C>
void scale(const Exec& exec, Accumulate<C> beta, const Matrix<C>& c) {
  using A = Accumulate<C>;
  if (beta == A(0)) {
    Kokkos::deep_copy(exec, c, C(0));
    return;
  }
  const Index columns = static_cast<Index>(c.extent(1));
  Kokkos::parallel_for(
      "minisp::gemm::scale", RowPolicy(exec, 0, static_cast<Index>(c.extent(0)) * columns),
      KOKKOS_LAMBDA(const Index i) {
        C& element = c(i / columns, i % columns);
        element = static_cast<C>(beta * static_cast<A>(element));
      });
}

#ifndef MINISP_HAVE_CUBLAS
/// BLAS counts in 32 bits, by way of Kokkos Kernels too, and would take the lower half of larger sizes.
template <class T, class C>
void check_blas_sizes(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<C>& c) {
  const Index largest =
      std::max({Index(a.extent(0)), Index(a.extent(1)), row_stride(a), Index(b.extent(0)), Index(b.extent(1)),
                row_stride(b), Index(c.extent(0)), Index(c.extent(1)), row_stride(c)});
  if (largest > std::numeric_limits<int>::max())
    throw input_error(fmt::format("a size of {} is more than BLAS can count", largest), "matrix product",
                      "Share the step between more ranks, or take a smaller vocabulary or model");
}
#endif

template <class T, class C>
void gemm_blas(const Exec& exec, Op op_a, Op op_b, Accumulate<T> alpha, const Matrix<const T>& a,
               const Matrix<const T>& b, Accumulate<T> beta, const Matrix<C>& c) {
#if defined(MINISP_HAVE_CUBLAS)
  gemm_cublas(exec, op_a, op_b, alpha, a, b, beta, c);
#elif defined(MINISP_HAVE_KOKKOS_KERNELS)
  check_blas_sizes(a, b, c);
  const char* letter_a = op_a == Op::none ? "N" : "T";
  const char* letter_b = op_b == Op::none ? "N" : "T";
#if KOKKOS_VERSION < 40000
  exec.fence();  // the form with an execution space came with Kokkos Kernels 4.0
  KokkosBlas::gemm(letter_a, letter_b, alpha, a, b, beta, c);
#else
  KokkosBlas::gemm(exec, letter_a, letter_b, alpha, a, b, beta, c);
#endif
#else
  static_assert(on_host, "matrix products on a device need Kokkos Kernels");
  check_blas_sizes(a, b, c);
  exec.fence();
  const auto op = [](Op o) { return o == Op::none ? CblasNoTrans : CblasTrans; };
  const int m = static_cast<int>(c.extent(0)), n = static_cast<int>(c.extent(1));
  const int k = static_cast<int>(op_a == Op::none ? a.extent(1) : a.extent(0));
  const auto lda = static_cast<int>(row_stride(a)), ldb = static_cast<int>(row_stride(b)),
             ldc = static_cast<int>(row_stride(c));
  if constexpr (std::is_same_v<T, float>)
    cblas_sgemm(CblasRowMajor, op(op_a), op(op_b), m, n, k, alpha, a.data(), lda, b.data(), ldb, beta,
                c.data(), ldc);
  else
    cblas_dgemm(CblasRowMajor, op(op_a), op(op_b), m, n, k, alpha, a.data(), lda, b.data(), ldb, beta,
                c.data(), ldc);
#endif
}

}  // namespace

template <class T, class C>
void gemm(const Exec& exec, Op op_a, Op op_b, Accumulate<T> alpha, const Matrix<const T>& a,
          const Matrix<const T>& b, Accumulate<T> beta, const Matrix<C>& c) {
  check_shapes(op_a, op_b, a, b, c);
  if (c.extent(0) == 0 || c.extent(1) == 0) return;
  if ((op_a == Op::none ? a.extent(1) : a.extent(0)) == 0) {
    scale<C>(exec, beta, c);
    return;
  }
#ifdef MINISP_HAVE_ONEDNN
  if constexpr (std::is_same_v<T, float> && on_host) {
    exec.fence();
    return gemm_onednn(op_a, op_b, alpha, a, b, beta, c);
  } else if constexpr (is_mixed<T> && on_host) {
    if (onednn_has_bf16() && alpha == 1) {
      exec.fence();
      return gemm_onednn(op_a, op_b, a, b, beta, c);
    }
  }
#endif
  if constexpr (is_mixed<T> && on_host)
    gemm_widened(exec, op_a, op_b, alpha, a, b, beta, c);
  else if constexpr (can_multiply<T>)
    gemm_blas(exec, op_a, op_b, alpha, a, b, beta, c);
  else
    require_gemm<T>();
}

template <class T>
void require_gemm() {
  if constexpr (!can_multiply<T>)
    throw environment_error("bf16 matrix products need cuBLAS on a device, which this build has not",
                            "matrix products",
                            "Set train.precision to \"fp32\", or run on the host or with CUDA");
}

template <class T>
const char* gemm_backend() {
#ifdef MINISP_HAVE_ONEDNN
  if (on_host && std::is_same_v<T, float>) return "oneDNN";
  if (on_host && is_mixed<T>) return onednn_has_bf16() ? "oneDNN" : "oneDNN in fp32";
#endif
#if defined(MINISP_HAVE_CUBLAS)
  return "cuBLAS";
#elif defined(MINISP_HAVE_KOKKOS_KERNELS)
  if (!can_multiply<T>) return "none";
  if (!on_host) return "Kokkos Kernels (device BLAS)";
  return is_mixed<T> ? "Kokkos Kernels (BLAS) in fp32" : "Kokkos Kernels (BLAS)";
#else
  return is_mixed<T> ? "BLAS in fp32" : "BLAS";
#endif
}

void limit_library_threads() {
  const int threads = on_host ? static_cast<int>(Exec().concurrency()) : 1;
  // OpenBLAS has no function in the BLAS standard for this; its own is looked up so that any BLAS links.
  using SetThreads = void (*)(int);
  if (auto* set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))) set(threads);
#ifdef MINISP_HAVE_ONEDNN
  omp_set_num_threads(threads);
#endif
}

#define MINISP_INSTANTIATE(T, C)                                                                         \
  template void gemm(const Exec&, Op, Op, Accumulate<T>, const Matrix<const T>&, const Matrix<const T>&, \
                     Accumulate<T>, const Matrix<C>&);
MINISP_INSTANTIATE(double, double)
MINISP_INSTANTIATE(float, float)
MINISP_INSTANTIATE(bfloat16, bfloat16)
MINISP_INSTANTIATE(bfloat16, float)
#undef MINISP_INSTANTIATE
template void require_gemm<double>();
template const char* gemm_backend<double>();
template void require_gemm<float>();
template const char* gemm_backend<float>();
template void require_gemm<bfloat16>();
template const char* gemm_backend<bfloat16>();

}  // namespace minisp::math
