// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Training: one object a rank, one call a step. Numerics contract: the loss is the sum of token losses over
// the number of valid tokens of the whole step (all micro-steps, all ranks); gradients are summed over ranks,
// and nothing is divided anywhere else; clipping by the global norm comes after the sum.
#pragma once

#include "config/config.hpp"
#include "model/parameters.hpp"
#include "model/transformer.hpp"
#include "parallel/batch_partition.hpp"
#include "parallel/mesh.hpp"
#include "parallel/parameter_store.hpp"
#include "parallel/ulysses_attend.hpp"
#include "parallel/volume.hpp"
#include "train/checkpoint.hpp"
#include "train/optimizer.hpp"
#include "train/token_source.hpp"
#include "util/phase_timers.hpp"

#include <memory>
#include <string>
#include <vector>

namespace minisp::train {

/// The same on every rank but for `seconds`.
struct StepResult {
  double loss = 0;           ///< nats per valid token, before the update
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  Index valid_tokens = 0;  ///< of the whole step
  double seconds = 0;      ///< of this rank
};

/// Bytes that a rank needs, by what for.
struct MemoryPrediction {
  Index weights = 0, gradients = 0, optimizer = 0;
  Index saved = 0;      ///< activations kept from forward to backward
  Index workspace = 0;  ///< shared by the layers, attention's included
  Index communication = 0;

  Index total() const { return weights + gradients + optimizer + saved + workspace + communication; }
};

template <class T>
class Trainer {
 public:
  using Observer = typename model::Transformer<T>::Observer;

  /// Allocates everything. Weights are the architecture's random ones or those of config.model_folder. What
  /// is passed by reference outlives the trainer.
  Trainer(const config::Config& config, const parallel::Mesh& mesh, const TokenSource& tokens,
          PhaseTimers& timers);

  /// One optimizer step: gradients of the next batch, clipping, update. Collective.
  StepResult step();
  /// Loss and summed gradients of the next batch; the weights stay and the batch is used again. Collective.
  StepResult compute_gradients();
  /// Forward alone on these rows (sequences of this rank's group, S + 1 each); the final norm's output of
  /// this rank's tokens. Collective over the group.
  Matrix<const T> forward(const std::vector<std::int32_t>& group_rows);

  /// The weights as if they had been stored in R. Collective.
  template <class R>
  void round_weights();

  /// Shows the tensors of every micro-step to come (Transformer::Observer).
  void observe(Observer observer) { transformer_.observe(std::move(observer)); }

  /// What `steps` calls of step() enter in this rank's ledger.
  std::vector<parallel::ExpectedTraffic> expected_traffic(Index steps) const;

  /// Steps since the beginning of the training; where in the data the next one begins follows from it.
  Index steps_done() const { return steps_done_; }
  /// All that a training that goes on elsewhere needs beside steps_done(): weights, and the optimizer's
  /// moments.
  std::vector<State<Accumulate<T>>> states() const;
  /// Writes them to `path` (save_checkpoint()). Collective; `comm` has the mesh's ranks.
  Index save(MPI_Comm comm, io::CheckpointHeader header, const std::string& path) const {
    return save_checkpoint(comm, mesh_, layout_, states(), std::move(header), path);
  }
  /// Goes on after step `steps_done`, once states() have been filled from a checkpoint. Collective.
  void resume(Index steps_done);

  const model::ParameterLayout& layout() const { return layout_; }
  /// The whole flat buffers, in the layout's order; collective. Copies where parameters are sharded.
  Vector<T> weights() const { return store_.full_weights(Exec()); }
  Vector<Accumulate<T>> gradients() const { return store_.full_gradients(Exec()); }
  /// The weights that this rank updates (ParameterStore::pieces).
  std::vector<typename parallel::ParameterStore<T>::Piece> pieces() const { return store_.pieces(); }
  /// Visible query-key pairs of the last step, of this rank's group.
  Index visible_pairs() const { return visible_pairs_; }
  /// Tokens of the rows of this rank's group for micro-step `micro` of the next step.
  std::vector<std::int32_t> group_rows(Index micro) const;

  /// The closed formula, without allocating anything.
  static MemoryPrediction predict_memory(const config::Config& config, const parallel::Plan& plan, int rank);

 private:
  Index load_batch();
  StepResult accumulate_gradients(const Exec& exec);

  const config::Config& config_;
  const parallel::Mesh& mesh_;
  const TokenSource& tokens_;
  PhaseTimers& timers_;
  model::ParameterLayout layout_;
  parallel::ParameterStore<T> store_;
  parallel::UlyssesAttend<T> attend_;
  model::Transformer<T> transformer_;
  Optimizer<T> optimizer_;
  std::vector<parallel::LocalBatch> micro_batches_;
  Index steps_done_ = 0;
  Index visible_pairs_ = 0;
};

/// body.operator()<T>() with the type that a model of this precision is stored in.
template <class Body>
decltype(auto) with_precision(config::Precision precision, const Body& body) {
  switch (precision) {
    case config::Precision::fp64:
      return body.template operator()<double>();
    case config::Precision::bf16:
      return body.template operator()<bfloat16>();
    case config::Precision::fp32:
      break;
  }
  return body.template operator()<float>();
}

/// Fills the master weights of pieces of the flat buffer from the weights of a Hugging Face folder. Error
/// (bad_input) names a tensor that is missing or has another shape.
template <class T>
void load_weights(const std::string& folder, const model::ParameterLayout& layout,
                  const std::vector<typename parallel::ParameterStore<T>::Piece>& pieces);

}  // namespace minisp::train
