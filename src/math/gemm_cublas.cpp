// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/gemm_cublas.hpp"

#include "util/error.hpp"

#include <fmt/format.h>

#include <cublas_v2.h>
#include <type_traits>

namespace minisp::math {

namespace {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw environment_error(fmt::format("{} failed: {}", call, cublasGetStatusString(status)), "cuBLAS",
                          "Check that the driver suits the CUDA toolkit and that the GPU has memory left");
}

/// The process has one device, hence one handle; it is gone before Kokkos' CUDA context is.
cublasHandle_t handle_for(const Exec& exec) {
  static cublasHandle_t handle = nullptr;
  if (!handle) {
    check(cublasCreate(&handle), "cublasCreate");
    // A bf16 product that is split along k is otherwise added up in bf16.
    check(cublasSetMathMode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION), "cublasSetMathMode");
    Kokkos::push_finalize_hook([] {
      cublasDestroy(handle);
      handle = nullptr;
    });
  }
  check(cublasSetStream(handle, exec.cuda_stream()), "cublasSetStream");
  return handle;
}

template <class T>
constexpr cudaDataType data_type = std::is_same_v<T, double>  ? CUDA_R_64F
                                   : std::is_same_v<T, float> ? CUDA_R_32F
                                                              : CUDA_R_16BF;

}  // namespace

template <class T, class C>
void gemm_cublas(const Exec& exec, Op op_a, Op op_b, Accumulate<T> alpha, const Matrix<const T>& a,
                 const Matrix<const T>& b, Accumulate<T> beta, const Matrix<C>& c) {
  // cuBLAS is column-major and so sees each matrix transposed: C^T = op(B)^T op(A)^T.
  const auto op = [](Op o) { return o == Op::none ? CUBLAS_OP_N : CUBLAS_OP_T; };
  constexpr auto compute = std::is_same_v<T, double> ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
  const Index k = static_cast<Index>(op_a == Op::none ? a.extent(1) : a.extent(0));
  check(cublasGemmEx_64(handle_for(exec), op(op_b), op(op_a), static_cast<Index>(c.extent(1)),
                        static_cast<Index>(c.extent(0)), k, &alpha, b.data(), data_type<T>, row_stride(b),
                        a.data(), data_type<T>, row_stride(a), &beta, c.data(), data_type<C>, row_stride(c),
                        compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

#define MINISP_INSTANTIATE(T, C)                                                        \
  template void gemm_cublas(const Exec&, Op, Op, Accumulate<T>, const Matrix<const T>&, \
                            const Matrix<const T>&, Accumulate<T>, const Matrix<C>&);
MINISP_INSTANTIATE(double, double)
MINISP_INSTANTIATE(float, float)
MINISP_INSTANTIATE(bfloat16, bfloat16)
MINISP_INSTANTIATE(bfloat16, float)
#undef MINISP_INSTANTIATE

}  // namespace minisp::math
