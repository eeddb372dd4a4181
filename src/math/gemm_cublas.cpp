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
    Kokkos::push_finalize_hook([] {
      cublasDestroy(handle);
      handle = nullptr;
    });
  }
  check(cublasSetStream(handle, exec.cuda_stream()), "cublasSetStream");
  return handle;
}

}  // namespace

template <class T>
void gemm_cublas(const Exec& exec, Op op_a, Op op_b, T alpha, const Matrix<const T>& a,
                 const Matrix<const T>& b, T beta, const Matrix<T>& c) {
  // cuBLAS is column-major and so sees each matrix transposed: C^T = op(B)^T op(A)^T.
  const auto op = [](Op o) { return o == Op::none ? CUBLAS_OP_N : CUBLAS_OP_T; };
  const auto handle = handle_for(exec);
  const Index m = static_cast<Index>(c.extent(0)), n = static_cast<Index>(c.extent(1));
  const Index k = static_cast<Index>(op_a == Op::none ? a.extent(1) : a.extent(0));
  if constexpr (std::is_same_v<T, float>)
    check(cublasSgemm_64(handle, op(op_b), op(op_a), n, m, k, &alpha, b.data(), row_stride(b), a.data(),
                         row_stride(a), &beta, c.data(), row_stride(c)),
          "cublasSgemm");
  else
    check(cublasDgemm_64(handle, op(op_b), op(op_a), n, m, k, &alpha, b.data(), row_stride(b), a.data(),
                         row_stride(a), &beta, c.data(), row_stride(c)),
          "cublasDgemm");
}

template void gemm_cublas<float>(const Exec&, Op, Op, float, const Matrix<const float>&,
                                 const Matrix<const float>&, float, const Matrix<float>&);
template void gemm_cublas<double>(const Exec&, Op, Op, double, const Matrix<const double>&,
                                  const Matrix<const double>&, double, const Matrix<double>&);

}  // namespace minisp::math
