// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The norm of the architecture, whichever it is: RMSNorm or LayerNorm behind one set of calls.
#pragma once

#include "config/architecture.hpp"
#include "math/column_sum.hpp"
#include "model/layer_norm.hpp"
#include "model/rms_norm.hpp"

namespace minisp::model {

/// Kept from forward to backward, (rows) each; RMSNorm has no mean.
template <class T>
struct NormState {
  Vector<Accumulate<T>> mean, inverse;

  NormState() = default;
  NormState(config::Norm kind, Index rows)
      : mean("minisp::norm::mean", kind == config::Norm::layer ? rows : 0),
        inverse("minisp::norm::inverse", rows) {}
};

/// Weight and bias views of T, or their gradients of Accumulate<T>; RMSNorm has no bias.
template <class T>
struct NormParameters {
  Vector<T> weight, bias;
};

inline Index norm_workspace(Index rows, Index columns) {
  return math::column_sum_workspace(rows, 2 * columns);
}

template <class T>
void norm_forward(const Exec& exec, const config::Architecture& a, const Matrix<const T>& x,
                  const NormParameters<T>& p, const Matrix<T>& out, const NormState<T>& state) {
  if (a.norm == config::Norm::rms)
    rms_norm_forward<T>(exec, x, p.weight, a.norm_epsilon, out, state.inverse);
  else
    layer_norm_forward<T>(exec, x, p.weight, p.bias, a.norm_epsilon, out, state.mean, state.inverse);
}

/// sum = x + branch, out = norm(sum), in one pass.
template <class T>
void residual_norm_forward(const Exec& exec, const config::Architecture& a, const Matrix<const T>& x,
                           const Matrix<const T>& branch, const NormParameters<T>& p, const Matrix<T>& sum,
                           const Matrix<T>& out, const NormState<T>& state) {
  if (a.norm == config::Norm::rms)
    residual_rms_norm_forward<T>(exec, x, branch, p.weight, a.norm_epsilon, sum, out, state.inverse);
  else
    residual_layer_norm_forward<T>(exec, x, branch, p.weight, p.bias, a.norm_epsilon, sum, out, state.mean,
                                   state.inverse);
}

/// The forward's `out` once more, from what was kept.
template <class T>
void norm_recompute(const Exec& exec, const config::Architecture& a, const Matrix<const T>& x,
                    const NormParameters<T>& p, const NormState<T>& state, const Matrix<T>& out) {
  if (a.norm == config::Norm::rms)
    rms_norm_recompute<T>(exec, x, p.weight, state.inverse, out);
  else
    layer_norm_recompute<T>(exec, x, p.weight, p.bias, state.mean, state.inverse, out);
}

/// dx = or += (mode), gradients of weight and bias +=.
template <class T>
void norm_backward(const Exec& exec, const config::Architecture& a, const Matrix<const T>& x,
                   const NormParameters<T>& p, const NormState<T>& state, const Matrix<const T>& dout,
                   Accumulation mode, const Matrix<T>& dx, const Vector<Accumulate<T>>& workspace,
                   const NormParameters<Accumulate<T>>& gradients) {
  if (a.norm == config::Norm::rms)
    rms_norm_backward<T>(exec, x, p.weight, state.inverse, dout, mode, dx, workspace, gradients.weight);
  else
    layer_norm_backward<T>(exec, x, p.weight, state.mean, state.inverse, dout, mode, dx, workspace,
                           gradients.weight, gradients.bias);
}

}  // namespace minisp::model
