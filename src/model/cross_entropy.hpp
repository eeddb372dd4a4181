// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Output head and softmax cross-entropy, fused over tiles of rows: no more than a tile of the logits exists.
//   logits(r, :) = hidden(r, :) W^T,  loss = loss_scale * sum over valid r of
//   log(sum_v exp(logits(r, v))) - logits(r, label(r));  a row whose label is negative is not predicted.
// Gradients: dhidden =, dweight += (a tied embedding adds its part to the same table).
#pragma once

#include "math/precision.hpp"
#include "util/views.hpp"

namespace minisp::model {

/// Workspace for a chunk of rows: their logits, in the type that is computed in, and the gradient of the
/// logits, which lies in the same memory where that type is T.
template <class T>
struct LogitTile {
  Matrix<Accumulate<T>> logits;  // (chunk, V)
  Matrix<T> gradient;            // (chunk, V)

  LogitTile(Index chunk, Index vocabulary);
  static Index bytes(Index chunk, Index vocabulary);
};

/// hidden, dhidden (rows, H); weight, dweight (V, H); labels (rows), negative: not predicted, else below V;
/// tile: any chunk >= 1; token_losses (rows) =: each row's loss before loss_scale, 0
/// where there is none. loss_scale is 1 / (valid tokens of the global batch). dweight is read and written
/// once a chunk: a chunk of some hundred rows makes that small beside the products.
template <class T>
void cross_entropy_forward_backward(const Exec& exec, const Matrix<const T>& hidden,
                                    const Matrix<const T>& weight, const Vector<const int>& labels,
                                    double loss_scale, const LogitTile<T>& tile, const Matrix<T>& dhidden,
                                    const Matrix<Accumulate<T>>& dweight,
                                    const Vector<Accumulate<T>>& token_losses);

/// token_losses = alone.
template <class T>
void cross_entropy_forward(const Exec& exec, const Matrix<const T>& hidden, const Matrix<const T>& weight,
                           const Vector<const int>& labels, const LogitTile<T>& tile,
                           const Vector<Accumulate<T>>& token_losses);

/// The part between the products: losses (rows) = of logits (rows, V), before loss_scale; gradient (rows, V,
/// or empty: none) = loss_scale * (softmax(logits) - [v == label]), 0 in rows without a label; it may be the
/// memory of the logits, which are destroyed.
template <class T>
void softmax_cross_entropy(const Exec& exec, const Matrix<Accumulate<T>>& logits,
                           const Vector<const int>& labels, double loss_scale, const Matrix<T>& gradient,
                           const Vector<Accumulate<T>>& losses);

/// Sum of the losses in double, in the order of the rows. Waits for `exec`.
template <class A>
double sum_losses(const Exec& exec, const Vector<const A>& token_losses);

}  // namespace minisp::model
