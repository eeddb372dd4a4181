// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Products of a type that nothing here multiplies: tiles of A and B are widened, multiplied in Accumulate<T>
// and added up there, and rounded once when they leave. Costs a pass over A for every tile of columns and
// over B for every tile of rows, few per cent of a large product, and memory for three tiles.
#pragma once

#include "math/gemm.hpp"

namespace minisp::math {

/// gemm() for shapes that agree and of which none is 0. Host only.
template <class T, class C>
void gemm_widened(const Exec& exec, Op op_a, Op op_b, Accumulate<T> alpha, const Matrix<const T>& a,
                  const Matrix<const T>& b, Accumulate<T> beta, const Matrix<C>& c);

}  // namespace minisp::math
