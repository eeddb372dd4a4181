// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A transformer language model on the tokens of this rank: embedding, blocks, final norm, head and loss,
// forward and backward by hand. Which tokens those are, and who holds the rest of a sequence, is hidden
// behind Attend.
#pragma once

#include "config/architecture.hpp"
#include "math/precision.hpp"
#include "model/attend.hpp"
#include "model/block.hpp"
#include "model/parameter_access.hpp"
#include "util/phase_timers.hpp"
#include "util/views.hpp"

#include <memory>
#include <span>
#include <string>

namespace minisp::model {

/// The tokens of this rank, row after row; not owned.
struct TokenRows {
  std::span<const int> tokens;
  std::span<const int> labels;     ///< negative: not predicted
  std::span<const int> positions;  ///< within the document
  Index first_token = 0;           ///< as Dropout has it
};

/// Bytes that a Transformer holds, by what they are for; what its Attend holds is not among them.
struct ModelMemory {
  Index saved = 0;      ///< kept from forward to backward, all layers
  Index workspace = 0;  ///< shared by the layers
};

template <class T>
class Transformer {
 public:
  /// Called with every tensor that Transformers would show: "hidden_states/I" (input of block I; the last one
  /// is after the final norm), "activations/MODULE", "activation_gradients/MODULE", "logits"; rows are this
  /// rank's tokens. The tensor is valid during the call only.
  using Observer = TensorObserver<T>;

  /// Allocates everything for `rows` tokens; `attend` must outlive the object. Positions are below
  /// `positions`.
  Transformer(const config::Architecture& architecture, config::Recompute recompute, Attend<T>& attend,
              Index rows, Index positions, PhaseTimers& timers);
  ~Transformer();

  /// Dropout from now on (none before): `tokens` as Dropout has them, (rows).
  void set_dropout(double probability, std::uint64_t seed, std::span<const Index> tokens);

  /// Takes the tokens of the next forward; their number is `rows`. The map of attention is set beside it.
  void set_tokens(const Exec& exec, const TokenRows& rows);

  /// gradients += loss_scale * d(sum of token losses)/d(weights); returns that sum, unscaled. Collective
  /// where parameters are sharded.
  double forward_backward(const Exec& exec, ParameterAccess<T>& parameters, double loss_scale);

  /// Forward alone, up to the final norm; the result is hidden().
  void forward(const Exec& exec, ParameterAccess<T>& parameters);
  /// (rows, hidden), after the final norm of the last forward.
  Matrix<const T> hidden() const;

  void observe(Observer observer);

  /// The closed formula of what the constructor allocates.
  static ModelMemory memory(const config::Architecture& architecture, config::Recompute recompute,
                            const HeadLayout& layout, Index rows, Index positions);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> impl_;
};

}  // namespace minisp::model
