// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The seam around parameters: a model asks for the tensors of one unit at a time and says when it is done
// with them. Where they live between those calls (resident, sharded over ranks) is the implementation's
// business (src/parallel/).
#pragma once

#include "math/precision.hpp"
#include "model/parameters.hpp"

namespace minisp::model {

/// Weights and gradients by unit: 0 embeddings, 1 .. layers the blocks, layers + 1 the final norm and an
/// untied head (ParameterLayout::units).
template <class T>
class ParameterAccess {
 public:
  virtual ~ParameterAccess() = default;

  /// Views of every unit. Those of a unit's weights may be read between acquire() and release(), those of its
  /// gradients written (+=) until retire_gradient().
  virtual const ModelParameters<T>& weights() const = 0;
  virtual const ModelParameters<Accumulate<T>>& gradients() const = 0;

  /// The unit's weights are there when this returns. Where weights are sharded this is collective: every rank
  /// asks in the same order.
  virtual void acquire(const Exec& exec, int unit) = 0;
  virtual void release(int unit) = 0;
  /// The unit will be acquired next and may be fetched meanwhile. Collective as acquire().
  virtual void prefetch(const Exec& exec, int unit) = 0;

  /// The unit's gradient of this micro-step is complete. Collective where gradients are sharded.
  virtual void retire_gradient(const Exec& exec, int unit) = 0;
};

}  // namespace minisp::model
