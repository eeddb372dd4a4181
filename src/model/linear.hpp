// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Linear layer: y = x W^T (+ b), W (out, in), one row an output feature.
// Gradients: dx and dW are written or added to as asked for, db +=.
//
// x and dx may come in column blocks: a (blocks*rows, in/blocks) matrix whose rows [b*rows, (b+1)*rows) hold
// the columns [b*in/blocks, (b+1)*in/blocks) of the rows. Heads come back from attention like this, and no
// pass is needed to lay them side by side. The number of blocks follows from the shapes (one: the plain
// matrix). Shapes that do not fit throw std::invalid_argument.
#pragma once

#include "math/precision.hpp"
#include "model/accumulation.hpp"
#include "util/views.hpp"

namespace minisp::model {

/// y (rows, out) = or += x W^T + bias; bias (out) may be empty. Adding to a residual stream is
/// Accumulation::add. `wide` (rows, out): where the products of several column blocks are summed before they
/// are rounded, once; only read where T is not what is computed in, and may be empty otherwise.
template <class T>
void linear_forward(const Exec& exec, const Matrix<const T>& x, const Matrix<const T>& weight,
                    const Vector<const T>& bias, Accumulation mode, const Matrix<T>& y,
                    const Matrix<Accumulate<T>>& wide = {});

/// dx (in the layout of x) = or += dy W; dy (rows, out).
template <class T>
void linear_backward_input(const Exec& exec, const Matrix<const T>& dy, const Matrix<const T>& weight,
                           Accumulation mode, const Matrix<T>& dx);

/// dweight (out, in) = or += dy^T x.
template <class T>
void linear_backward_weight(const Exec& exec, const Matrix<const T>& dy, const Matrix<const T>& x,
                            Accumulation mode, const Matrix<Accumulate<T>>& dweight);

/// dbias (out) += sum over the rows of dy. workspace: math::column_sum_workspace(rows, out) elements.
template <class T>
void linear_backward_bias(const Exec& exec, const Matrix<const T>& dy, const Vector<Accumulate<T>>& workspace,
                          const Vector<Accumulate<T>>& dbias);

}  // namespace minisp::model
