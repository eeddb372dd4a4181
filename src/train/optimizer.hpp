// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// SGD and AdamW on the flat parameter buffer, with clipping by the global gradient norm folded in.
#pragma once

#include "config/config.hpp"
#include "math/precision.hpp"
#include "util/views.hpp"

#include <string>
#include <vector>

namespace minisp::train {

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

  /// Opens a step: gradients count `factor` times, `rate` is its learning rate.
  void begin_step(double factor, double rate);
  /// Updates a part of the weights in place, whose states begin at element `state`. In mixed precision the
  /// master weights take the update and the weights are what they round to; else `master` is `weights`. G: T
  /// or Accumulate<T>.
  template <class G>
  void update(const Exec& exec, const Vector<Accumulate<T>>& master, const Vector<T>& weights,
              const Vector<const G>& gradients, Index state);

  /// What there is one number of per element of state; empty for SGD.
  struct Moment {
    std::string name, description;
    Vector<Accumulate<T>> values;
  };
  std::vector<Moment> moments() const;
  /// Goes on as if it had taken so many steps.
  void resume(Index steps_taken) { steps_taken_ = steps_taken; }

 private:
  config::TrainConfig train_;
  Index steps_taken_ = 0;
  double factor_ = 1, rate_ = 0;
  Vector<Accumulate<T>> first_moment_, second_moment_;  // (elements), AdamW only
};

}  // namespace minisp::train
