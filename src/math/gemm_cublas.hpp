// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Matrix products by cuBLAS, which the CUDA backend of Kokkos always has at hand.
#pragma once

#include "math/gemm.hpp"

namespace minisp::math {

/// gemm() for shapes that agree and of which none is 0. The product is queued in the stream of `exec`. fp64
/// and fp32 are in full precision (no TF32); bf16 is summed in fp32. Throws minisp::Error where cuBLAS
/// refuses.
template <class T, class C>
void gemm_cublas(const Exec& exec, Op op_a, Op op_b, Accumulate<T> alpha, const Matrix<const T>& a,
                 const Matrix<const T>& b, Accumulate<T> beta, const Matrix<C>& c);

}  // namespace minisp::math
