// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The one way to a matrix product. Backends: cuBLAS on CUDA; elsewhere Kokkos Kernels (which calls the
// vendor's BLAS) or, where it is missing on the host, BLAS; and on the host in fp32 and bf16 oneDNN where the
// build has it: Debian's OpenBLAS falls back to a kernel 5 times slower on processors it does not know, and
// elsewhere the two are level in fp32. A processor without bf16 instructions takes bf16 products in fp32,
// tile by tile.
#pragma once

#include "math/precision.hpp"
#include "util/views.hpp"

namespace minisp::math {

enum class Op { none, transpose };

/// C = alpha op(A) op(B) + beta C, row-major, any row strides; C holds T or Accumulate<T>. Products are
/// summed in Accumulate<T> and rounded once. With beta = 0, C is not read (it may hold NaN). Shapes: op(A)
/// (m, k), op(B) (k, n), C (m, n); a mismatch throws std::invalid_argument, a size beyond 2^31 - 1 that
/// goes to BLAS an Error (bad_input). Empty m or n is no work; k = 0
/// scales C. Ordered after earlier work in `exec`.
template <class T, class C>
void gemm(const Exec& exec, Op op_a, Op op_b, Accumulate<T> alpha, const Matrix<const T>& a,
          const Matrix<const T>& b, Accumulate<T> beta, const Matrix<C>& c);

/// Throws minisp::Error (environment) where products of T cannot be had: bf16 on a device without cuBLAS.
/// gemm() throws the same; asked before a run starts, all ranks stop together.
template <class T>
void require_gemm();

/// The backend that serves type T: "oneDNN", "cuBLAS", "Kokkos Kernels (BLAS)", "BLAS"; for bf16 without
/// instructions of its own "... in fp32", and "none" where require_gemm() throws.
template <class T>
const char* gemm_backend();

/// Lets the host libraries use as many threads as Kokkos has (one under Serial). Call once after
/// Kokkos::initialize: left alone they take every core of the node in every rank.
void limit_library_threads();

}  // namespace minisp::math
