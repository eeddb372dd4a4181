// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// One transformer block, pre-norm:
//   x     += dropout(o_proj(attend(rope(qkv_proj(norm1(x))))))
//   x     += dropout(down_proj(activation(up_proj(norm2(x)))))
// Gradients of parameters accumulate (+=); the gradient of the residual stream is carried in place.
#pragma once

#include "config/config.hpp"
#include "model/attend.hpp"
#include "model/dropout.hpp"
#include "model/norm.hpp"
#include "model/parameters.hpp"
#include "model/rope.hpp"
#include "util/phase_timers.hpp"

#include <functional>
#include <string>

namespace minisp::model {

template <class T>
using TensorObserver = std::function<void(const std::string&, const Matrix<const T>&)>;

/// What a block keeps from forward to backward. Norm outputs and activations are made anew instead: they cost
/// one pass over memory, and are two thirds of what a framework would keep.
template <class T>
struct BlockState {
  Matrix<T> input;  ///< (rows, hidden)
  NormState<T> norm1;
  Matrix<T> fused;  ///< (rows, (h + 2 kv) d) before the per-head norm; only where the model has one
  AttendState<T> attend;
  Matrix<T> middle;  ///< (rows, hidden): after the attention branch
  NormState<T> norm2;
  Matrix<T> up;  ///< (rows, 2 intermediate | intermediate): output of up_proj, later its gradient

  BlockState(const config::Architecture& architecture, const Attend<T>& attend, Index rows);
  /// For a block whose backward pass recomputes: what is made anew lies in the memory of `first`, another
  /// block's.
  BlockState(const BlockState& first, config::Recompute recompute, const config::Architecture& architecture,
             const Attend<T>& attend, Index rows);
};

/// Buffers that all blocks share.
template <class T>
struct BlockWorkspace {
  Matrix<T> normed;  ///< (rows, hidden)
  Matrix<T> branch;  ///< (rows, hidden): a branch's output; in the backward pass first its gradient where
                     ///< dropout makes it another than the residual stream's, then the gradient of `normed`
  Matrix<T> fused;   ///< (rows, (h + 2 kv) d)
  Matrix<T> activation;  ///< (rows, intermediate); in the backward pass first its gradient
  Matrix<T> gradient;    ///< (rows, hidden): dloss/d(residual stream)
  Matrix<Accumulate<T>>
      wide;  ///< (rows, hidden): sum over column blocks before rounding; mixed precision only
  Vector<Accumulate<T>> column_sums;  ///< partial sums of bias and norm gradients
  Vector<Accumulate<T>> head_norm;    ///< the same of per-head norms

  BlockWorkspace(const config::Architecture& architecture, const HeadLayout& layout, Index rows);
};

/// What is the same for every block of a step.
template <class T>
struct BlockContext {
  const Exec& exec;
  const config::Architecture& architecture;
  Attend<T>& attend;
  const BlockWorkspace<T>& workspace;
  RopeTable<T> rope;
  Vector<const int> positions;  ///< (rows)
  const Dropout& dropout;
  Index layer;
  PhaseTimers& timers;
  const TensorObserver<T>& observe;  ///< may be empty
  std::string name;                  ///< "model.layers.3.", for the observer
};

/// Expects workspace.normed = norm1(state.input); leaves the MLP branch's output in workspace.branch, to be
/// added to state.middle by whoever forms the next norm.
template <class T>
void block_forward(const BlockContext<T>& context, const BlockParameters<T>& weights, BlockState<T>& state);

/// Before block_backward(), of a state that shares memory: makes anew what the other blocks have overwritten.
/// The same bits as in the forward pass; under Recompute::full its exchanges once more.
template <class T>
void block_recompute(const BlockContext<T>& context, config::Recompute recompute,
                     const BlockParameters<T>& weights, BlockState<T>& state);

/// workspace.gradient holds dloss/d(output) and leaves as dloss/d(input). state.up is overwritten.
template <class T>
void block_backward(const BlockContext<T>& context, const BlockParameters<T>& weights,
                    const BlockParameters<Accumulate<T>>& gradients, BlockState<T>& state);

}  // namespace minisp::model
