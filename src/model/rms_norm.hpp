// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// RMSNorm (Zhang & Sennrich, arXiv:1910.07467):
//   out(r, c) = x(r, c) * inverse_rms(r) * weight(c),  inverse_rms(r) = 1 / sqrt(mean_c x(r, c)^2 + epsilon)
// Gradients: dx is written or added to as asked for, dweight +=.
// Shapes: x, out, dx, dout (rows, columns); weight (columns); inverse_rms (rows).
#pragma once

#include "math/precision.hpp"
#include "model/accumulation.hpp"
#include "util/views.hpp"

namespace minisp::model {

/// out =, inverse_rms =.
template <class T>
void rms_norm_forward(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                      double epsilon, const Matrix<T>& out, const Vector<Accumulate<T>>& inverse_rms);

/// sum = x + branch and out = the norm of sum, in one pass where a residual addition meets a norm; sum may be
/// the same memory as x or branch.
template <class T>
void residual_rms_norm_forward(const Exec& exec, const Matrix<const T>& x, const Matrix<const T>& branch,
                               const Vector<const T>& weight, double epsilon, const Matrix<T>& sum,
                               const Matrix<T>& out, const Vector<Accumulate<T>>& inverse_rms);

/// out = again, bit for bit, from the kept inverse_rms: a backward pass makes it anew instead of keeping it.
template <class T>
void rms_norm_recompute(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                        const Vector<const Accumulate<T>>& inverse_rms, const Matrix<T>& out);

/// With g = dout * weight: dx (= or +=) inverse_rms * (g - x * inverse_rms^2 * mean_c(g x)), and
/// dweight(c) += sum_r dout x inverse_rms. workspace: math::column_sum_workspace(rows, columns) elements.
template <class T>
void rms_norm_backward(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                       const Vector<const Accumulate<T>>& inverse_rms, const Matrix<const T>& dout,
                       Accumulation dx_mode, const Matrix<T>& dx, const Vector<Accumulate<T>>& workspace,
                       const Vector<Accumulate<T>>& dweight);

}  // namespace minisp::model
