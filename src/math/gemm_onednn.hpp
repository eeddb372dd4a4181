// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Matrix products on the host by oneDNN.
#pragma once

#include "math/gemm.hpp"

namespace minisp::math {

/// gemm() for shapes that agree and of which none is 0; returns when C is written. Throws std::runtime_error
/// where oneDNN refuses.
void gemm_onednn(Op op_a, Op op_b, float alpha, const Matrix<const float>& a, const Matrix<const float>& b,
                 float beta, const Matrix<float>& c);
/// The same in bf16, C in bf16 or fp32. Only where onednn_has_bf16().
template <class C>
void gemm_onednn(Op op_a, Op op_b, const Matrix<const bfloat16>& a, const Matrix<const bfloat16>& b,
                 float beta, const Matrix<C>& c);

/// The processor has bf16 instructions and oneDNN uses them. Where it has none, oneDNN's bf16 products are
/// reference loops.
bool onednn_has_bf16();

}  // namespace minisp::math
