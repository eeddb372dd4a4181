// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What lies between the projections of a feed-forward layer.
// Gradients are written (=); in-place use is allowed where it says so.
#pragma once

#include "util/views.hpp"

namespace minisp::model {

/// SwiGLU (Shazeer, arXiv:2002.05202): act = silu(gate) * up, silu(z) = z / (1 + exp(-z)).
/// gate_up (rows, 2 n): gate beside up; act (rows, n) =.
template <class T>
void swiglu_forward(const Exec& exec, const Matrix<const T>& gate_up, const Matrix<T>& act);

/// dgate_up (rows, 2 n) = from dact (rows, n); may be the same memory as gate_up. act (rows, n) = the
/// forward's output once more, in the same pass: the gradient of the next projection's weight needs it, and
/// nobody has to keep it. It may be the same memory as dact.
template <class T>
void swiglu_backward(const Exec& exec, const Matrix<const T>& gate_up, const Matrix<const T>& dact,
                     const Matrix<T>& act, const Matrix<T>& dgate_up);

/// GELU, tanh form (Hendrycks & Gimpel, arXiv:1606.08415): act = x/2 (1 + tanh(u)) = x / (1 + exp(-2u)),
/// u = sqrt(2/pi) (x + 0.044715 x^3). x, act (rows, n); act = may be the same memory as x.
template <class T>
void gelu_tanh_forward(const Exec& exec, const Matrix<const T>& x, const Matrix<T>& act);

/// dx =; may be the same memory as x. act = the forward's output once more; may be the same memory as dact.
template <class T>
void gelu_tanh_backward(const Exec& exec, const Matrix<const T>& x, const Matrix<const T>& dact,
                        const Matrix<T>& act, const Matrix<T>& dx);

}  // namespace minisp::model
