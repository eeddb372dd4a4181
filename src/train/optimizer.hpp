// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// SGD and AdamW on the flat parameter buffer, with clipping by the global gradient norm folded in.
#pragma once

#include "config/config.hpp"
#include "math/precision.hpp"
#include "util/views.hpp"

namespace minisp::train {

/// Square root of the sum of squares of all elements, in double, summed in an order that depends on the size
/// alone: the same on every rank that holds the same gradients.
template <class T>
double global_norm(const Exec& exec, const Vector<const T>& gradients, const Vector<double>& partial_sums);

/// Partial sums that global_norm needs.
Index norm_blocks(Index elements);

/// Factor that clips a gradient of this norm: clip / (norm + 1e-6), at most 1, as torch's clip_grad_norm_ has
/// it; 1 when clip is 0.
double clip_factor(double norm, double clip);

/// Linear warm-up over `learning_rate_warmup` steps, then a cosine over `learning_rate_decay` steps to the
/// minimum; constant without decay. `step` counts from 0; the first step of a warm-up of n runs at 1/n.
double learning_rate(const config::TrainConfig& train, Index step);

/// Loshchilov & Hutter, arXiv:1711.05101, algorithm 2, as torch.optim.AdamW computes it; weight decay on
/// every parameter. SGD without momentum.
template <class T>
class Optimizer {
 public:
  /// States are allocated here: none for SGD, two buffers of `elements` for AdamW.
  Optimizer(const config::TrainConfig& train, Index elements);

  /// weights updated in place from factor * gradients; `rate` is this step's learning rate.
  void step(const Exec& exec, const Vector<T>& weights, const Vector<const Accumulate<T>>& gradients,
            double factor, double rate);

 private:
  config::TrainConfig train_;
  Index steps_taken_ = 0;
  Vector<Accumulate<T>> first_moment_, second_moment_;  // (elements), AdamW only
};

}  // namespace minisp::train
