// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// LayerNorm (Ba, Kiros & Hinton, arXiv:1607.06450):
//   out(r, c) = (x(r, c) - mean(r)) * inverse_deviation(r) * weight(c) + bias(c),
//   inverse_deviation(r) = 1 / sqrt(mean_c (x(r, c) - mean(r))^2 + epsilon)
// Gradients: dx is written or added to as asked for, dweight += and dbias +=.
// Shapes: x, out, dx, dout (rows, columns); weight, bias (columns); mean, inverse_deviation (rows).
#pragma once

#include "math/precision.hpp"
#include "model/accumulation.hpp"
#include "util/views.hpp"

namespace minisp::model {

/// out =, mean =, inverse_deviation =.
template <class T>
void layer_norm_forward(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                        const Vector<const T>& bias, double epsilon, const Matrix<T>& out,
                        const Vector<Accumulate<T>>& mean, const Vector<Accumulate<T>>& inverse_deviation);

/// sum = x + branch and out = the norm of sum, in one pass where a residual addition meets a norm; sum may be
/// the same memory as x or branch.
template <class T>
void residual_layer_norm_forward(const Exec& exec, const Matrix<const T>& x, const Matrix<const T>& branch,
                                 const Vector<const T>& weight, const Vector<const T>& bias, double epsilon,
                                 const Matrix<T>& sum, const Matrix<T>& out,
                                 const Vector<Accumulate<T>>& mean,
                                 const Vector<Accumulate<T>>& inverse_deviation);

/// out = again, bit for bit, from what was kept.
template <class T>
void layer_norm_recompute(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                          const Vector<const T>& bias, const Vector<const Accumulate<T>>& mean,
                          const Vector<const Accumulate<T>>& inverse_deviation, const Matrix<T>& out);

/// With g = dout * weight and n = (x - mean) * inverse_deviation:
/// dx (= or +=) inverse_deviation * (g - mean_c(g) - n * mean_c(g n)),
/// dweight(c) += sum_r dout n, dbias(c) += sum_r dout.
/// workspace: math::column_sum_workspace(rows, 2 * columns) elements.
template <class T>
void layer_norm_backward(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                         const Vector<const Accumulate<T>>& mean,
                         const Vector<const Accumulate<T>>& inverse_deviation, const Matrix<const T>& dout,
                         Accumulation dx_mode, const Matrix<T>& dx, const Vector<Accumulate<T>>& workspace,
                         const Vector<Accumulate<T>>& dweight, const Vector<Accumulate<T>>& dbias);

}  // namespace minisp::model
