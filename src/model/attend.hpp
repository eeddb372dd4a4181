// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The seam around attention: o = attend(q, k, v). A block asks it where to put q, k and v and where to find
// o; who else holds heads or tokens is its implementation's business (src/parallel/).
#pragma once

#include "model/attention.hpp"
#include "model/head_layout.hpp"
#include "util/views.hpp"

namespace minisp::model {

/// What one layer keeps from forward to backward.
template <class T>
struct AttendState {
  Matrix<T> qkv;              ///< (attention rows, layout.packed_width()): q, k, v as attention reads them
  Matrix<T> output;           ///< (attention rows, q_heads*head_dim)
  Matrix<Accumulate<T>> lse;  ///< (q_heads, attention rows)
  Matrix<T> own_output;  ///< (blocks*rows, q_heads*head_dim): o of this rank's tokens, blocks of heads; with
                         ///< one block the same memory as `output`
};

/// `rows` is the number of tokens on this rank. Attention rows = blocks * rows: an exchange gives tokens for
/// heads at equal volume.
template <class T>
class Attend {
 public:
  virtual ~Attend() = default;

  virtual HeadLayout layout() const = 0;
  virtual AttendState<T> allocate() const = 0;

  /// Where the packed q, k, v of this rank's tokens are to be written before forward(), (blocks*rows,
  /// packed_width): the state's own qkv with one block, a send buffer that all layers share otherwise.
  virtual Matrix<T> packed_qkv(AttendState<T>& state) = 0;

  /// Fills state.qkv (from packed_qkv), state.output, state.lse and state.own_output.
  virtual void forward(const Exec& exec, AttendState<T>& state) = 0;

  /// Fills state.output and state.lse once more, from state.qkv; own_output of an exchange stays as it is.
  virtual void recompute(const Exec& exec, AttendState<T>& state) = 0;

  /// Where dloss/d(own_output) is to be written before backward(), shape of own_output.
  virtual Matrix<T> own_output_gradient() = 0;

  /// Returns dloss/d(packed_qkv), (blocks*rows, packed_width), valid until the next call. With replicated K/V
  /// heads every block holds its own part; the parts are to be summed.
  virtual Matrix<const T> backward(const Exec& exec, AttendState<T>& state) = 0;
};

}  // namespace minisp::model
