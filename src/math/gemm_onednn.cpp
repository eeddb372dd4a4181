// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/gemm_onednn.hpp"

#include <dnnl.h>
#include <dnnl.hpp>
#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace minisp::math {

void gemm_onednn(Op op_a, Op op_b, float alpha, const Matrix<const float>& a, const Matrix<const float>& b,
                 float beta, const Matrix<float>& c) {
  const auto letter = [](Op op) { return op == Op::none ? 'N' : 'T'; };
  const dnnl_dim_t k = op_a == Op::none ? a.extent(1) : a.extent(0);
  const auto status = dnnl_sgemm(letter(op_a), letter(op_b), c.extent(0), c.extent(1), k, alpha, a.data(),
                                 row_stride(a), b.data(), row_stride(b), beta, c.data(), row_stride(c));
  if (status != dnnl_success)
    throw std::runtime_error(fmt::format("oneDNN refused a matrix product (status {})", int(status)));
}

namespace {

using dnnl::memory;

/// op(M) as oneDNN sees it: a transposed matrix is one whose columns lie one row stride apart.
template <class T>
memory::desc describe(Op op, const Matrix<T>& m) {
  constexpr auto type =
      std::is_same_v<std::remove_const_t<T>, float> ? memory::data_type::f32 : memory::data_type::bf16;
  const auto rows = static_cast<memory::dim>(m.extent(0)), columns = static_cast<memory::dim>(m.extent(1));
  const memory::dim stride = row_stride(m);
  if (op == Op::none) return {{rows, columns}, type, memory::dims{stride, 1}};
  return {{columns, rows}, type, memory::dims{1, stride}};
}

dnnl::matmul::primitive_desc matmul(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b,
                                    const memory::desc& c, const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
#endif
}

}  // namespace

template <class C>
void gemm_onednn(Op op_a, Op op_b, const Matrix<const bfloat16>& a, const Matrix<const bfloat16>& b,
                 float beta, const Matrix<C>& c) {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(engine);
  static std::vector<std::byte> scratch;  // of the largest product so far
  try {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (beta != 0) {
      dnnl::post_ops add;
      add.append_sum(beta);
      attributes.set_post_ops(add);
    }
    const auto a_desc = describe(op_a, a), b_desc = describe(op_b, b), c_desc = describe(Op::none, c);
    // The library keeps what it compiled for these sizes; making the primitive again costs microseconds.
    const auto product = matmul(engine, a_desc, b_desc, c_desc, attributes);
    if (scratch.size() < product.scratchpad_desc().get_size())
      scratch.resize(product.scratchpad_desc().get_size());
    const auto memory_of = [&](const memory::desc& desc, const void* data) {
      return memory(desc, engine, const_cast<void*>(data));
    };
    dnnl::matmul(product).execute(
        stream, {{DNNL_ARG_SRC, memory_of(a_desc, a.data())},
                 {DNNL_ARG_WEIGHTS, memory_of(b_desc, b.data())},
                 {DNNL_ARG_DST, memory_of(c_desc, c.data())},
                 {DNNL_ARG_SCRATCHPAD, memory_of(product.scratchpad_desc(), scratch.data())}});
    stream.wait();
  } catch (const dnnl::error& error) {
    throw std::runtime_error(fmt::format("oneDNN refused a bf16 matrix product: {}", error.what()));
  }
}

bool onednn_has_bf16() {
#if defined(__x86_64__)
  // Instruction sets are sets of bits, each including its predecessors.
  constexpr int bf16 = dnnl_cpu_isa_avx512_core_bf16;
  return (static_cast<int>(dnnl_get_effective_cpu_isa()) & bf16) == bf16;
#else
  return false;
#endif
}

template void gemm_onednn(Op, Op, const Matrix<const bfloat16>&, const Matrix<const bfloat16>&, float,
                          const Matrix<float>&);
template void gemm_onednn(Op, Op, const Matrix<const bfloat16>&, const Matrix<const bfloat16>&, float,
                          const Matrix<bfloat16>&);

}  // namespace minisp::math
