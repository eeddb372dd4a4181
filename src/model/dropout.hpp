// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Dropout (Srivastava et al., Journal of Machine Learning Research 15, 2014) of what a block's branches add
// to the residual stream. An element is dropped or kept by its place in the model and its token's index in
// all of training: the same under every decomposition and rank count, when activations are made anew, and
// after a restart.
#pragma once

#include "math/precision.hpp"
#include "util/views.hpp"

#include <cstdint>

namespace minisp::model {

/// What decides over an element of this rank's rows.
struct Dropout {
  double probability = 0;  ///< that an element is dropped; rounded down to a multiple of 2^-32
  std::uint64_t seed = 0;
  Vector<Index> tokens;   ///< (rows): index in the micro-batch of each row's token, sequence * S + position
  Index first_token = 0;  ///< of the micro-batch, among the tokens of all micro-batches since the first

  bool active() const { return probability > 0; }
};

enum class Branch { attention, mlp };

/// y = x where an element is kept, times 1 / (1 - probability), and 0 where it is dropped; both (rows,
/// columns). y may be x. The backward pass is the same call on gradients.
template <class T>
void apply_dropout(const Exec& exec, const Dropout& dropout, Index layer, Branch branch,
                   const Matrix<const T>& x, const Matrix<T>& y);

}  // namespace minisp::model
