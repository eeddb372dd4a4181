// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/transformer.hpp"

#include "model/cross_entropy.hpp"
#include "model/embedding.hpp"
#include "model/linear.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace minisp::model {

using config::Architecture;

namespace {

// Rows of the logits that exist at once: enough for the products to run at full rate, few enough that a tile
// over a vocabulary of 150k stays at 150 MB in fp32.
constexpr Index head_tile_rows = 256;

Index head_rows(Index rows) {
  return std::min(rows, head_tile_rows);
}

bool learned_positions(const Architecture& a) {
  return a.positions == config::Positions::learned;
}

HostVector<const int> as_view(std::span<const int> values) {
  return HostVector<const int>(values.data(), values.size());
}

}  // namespace

template <class T>
struct Transformer<T>::Implementation {
  Architecture architecture;
  config::Recompute recompute;
  Attend<T>& attend;
  Index rows;
  PhaseTimers& timers;
  Observer observer;

  Vector<int> tokens, labels, positions;  // (rows)
  TokenIndex token_index, position_index;
  RopeTable<T> rope;
  Dropout dropout;
  BlockWorkspace<T> workspace;
  std::vector<BlockState<T>> blocks;
  Matrix<T> output;  // (rows, hidden): residual stream after the last block
  NormState<T> norm;
  LogitTile<T> tile;
  Vector<Accumulate<T>> token_losses;

  Implementation(const Architecture& a, config::Recompute recompute_, Attend<T>& attend_seam, Index rows_,
                 Index positions_, PhaseTimers& timers_)
      : architecture(a),
        recompute(recompute_),
        attend(attend_seam),
        rows(rows_),
        timers(timers_),
        tokens("minisp::transformer::tokens", rows_),
        labels("minisp::transformer::labels", rows_),
        positions("minisp::transformer::positions", rows_),
        token_index(rows_),
        position_index(learned_positions(a) ? rows_ : 0),
        workspace(a, attend_seam.layout(), rows_),
        output(uninitialized("minisp::transformer::output"), rows_, a.hidden),
        norm(a.norm, rows_),
        tile(head_rows(rows_), a.vocabulary),
        token_losses("minisp::transformer::token_losses", rows_) {
    if (!learned_positions(a))
      rope = make_rope_table<T>(rope_frequencies(a.rope_theta, static_cast<int>(a.head_dim), a.rope_scaling),
                                positions_);
    blocks.emplace_back(a, attend_seam, rows_);
    for (Index layer = 1; layer < a.layers; ++layer)
      blocks.emplace_back(blocks.front(), recompute, a, attend_seam, rows_);
  }

  void show(const std::string& name, const Matrix<const T>& tensor) const {
    if (observer) observer(name, tensor);
  }
  std::string final_norm_name() const {
    return architecture.family == config::Family::gpt2 ? "transformer.ln_f" : "model.norm";
  }
  BlockContext<T> context(const Exec& exec, Index layer) const {
    const char* body = architecture.family == config::Family::gpt2 ? "transformer.h" : "model.layers";
    return {exec,
            architecture,
            attend,
            workspace,
            rope,
            positions,
            dropout,
            layer,
            timers,
            observer,
            observer ? fmt::format("{}.{}.", body, layer) : std::string()};
  }
  /// For what is computed a second time, and was shown the first time.
  BlockContext<T> silent_context(const Exec& exec, Index layer) const {
    static const Observer nobody;
    return {exec, architecture, attend, workspace, rope, positions, dropout, layer, timers, nobody, {}};
  }

  int final_unit() const { return static_cast<int>(blocks.size()) + 1; }

  void embed(const Exec& exec, ParameterAccess<T>& parameters) {
    parameters.acquire(exec, 0);
    {
      auto phase = timers.phase("embedding");
      const auto& weights = parameters.weights();
      const Matrix<T>& out = blocks.front().input;
      if (learned_positions(architecture))
        embedding_forward<T>(exec, tokens, weights.embedding, positions, weights.positions, out);
      else
        embedding_forward<T>(exec, tokens, weights.embedding, out);
    }
    parameters.release(0);
  }

  /// Leaves the final norm's output in workspace.normed, and the last unit acquired.
  void forward(const Exec& exec, ParameterAccess<T>& parameters) {
    embed(exec, parameters);
    const auto& weights = parameters.weights();
    parameters.acquire(exec, 1);
    {
      auto phase = timers.phase("norm");
      auto& first = blocks.front();
      norm_forward<T>(exec, architecture, first.input,
                      {weights.blocks.front().norm1_weight, weights.blocks.front().norm1_bias},
                      workspace.normed, first.norm1);
    }
    for (std::size_t layer = 0; layer < blocks.size(); ++layer) {
      const int unit = static_cast<int>(layer) + 1;
      parameters.prefetch(exec, unit + 1);
      show(fmt::format("hidden_states/{}", layer), blocks[layer].input);
      block_forward<T>(context(exec, static_cast<Index>(layer)), weights.blocks[layer], blocks[layer]);
      // The next norm is the next unit's.
      parameters.acquire(exec, unit + 1);
      add_branch_and_norm(exec, weights, layer);
      parameters.release(unit);
    }
    show(fmt::format("hidden_states/{}", blocks.size()), workspace.normed);
    show("activations/" + final_norm_name(), workspace.normed);
  }

  void add_branch_and_norm(const Exec& exec, const ModelParameters<T>& weights, std::size_t layer) {
    auto phase = timers.phase("norm");
    const bool last = layer + 1 == blocks.size();
    const Matrix<T>& next = last ? output : blocks[layer + 1].input;
    const NormParameters<T> next_norm = last ? NormParameters<T>{weights.norm_weight, weights.norm_bias}
                                             : NormParameters<T>{weights.blocks[layer + 1].norm1_weight,
                                                                 weights.blocks[layer + 1].norm1_bias};
    residual_norm_forward<T>(exec, architecture, blocks[layer].middle, workspace.branch, next_norm, next,
                             workspace.normed, last ? norm : blocks[layer + 1].norm1);
  }

  void show_logits(const Exec& exec, const ModelParameters<T>& weights) const {
    if (!observer) return;
    Matrix<T> logits("minisp::transformer::logits", rows, architecture.vocabulary);
    linear_forward<T>(exec, workspace.normed, weights.head, {}, Accumulation::overwrite, logits);
    show("logits", logits);
  }

  /// Loss and the gradient of the final norm's output, which is left in workspace.branch.
  double head(const Exec& exec, ParameterAccess<T>& parameters, double loss_scale) {
    if (architecture.tied_head) parameters.acquire(exec, 0);
    show_logits(exec, parameters.weights());
    double loss = 0;
    {
      auto phase = timers.phase("head_loss");
      cross_entropy_forward_backward<T>(exec, workspace.normed, parameters.weights().head, labels, loss_scale,
                                        tile, workspace.branch, parameters.gradients().head, token_losses);
      loss = sum_losses<Accumulate<T>>(exec, token_losses);
    }
    show("activation_gradients/" + final_norm_name(), workspace.branch);
    if (architecture.tied_head) parameters.release(0);
    return loss;
  }

  void backward(const Exec& exec, ParameterAccess<T>& parameters) {
    const auto& weights = parameters.weights();
    const auto& gradients = parameters.gradients();
    {
      auto phase = timers.phase("norm");
      norm_backward<T>(exec, architecture, output, {weights.norm_weight, weights.norm_bias}, norm,
                       workspace.branch, Accumulation::overwrite, workspace.gradient, workspace.column_sums,
                       {gradients.norm_weight, gradients.norm_bias});
    }
    parameters.release(final_unit());
    parameters.retire_gradient(exec, final_unit());
    for (std::size_t layer = blocks.size(); layer-- > 0;) {
      const int unit = static_cast<int>(layer) + 1;
      parameters.acquire(exec, unit);
      if (layer > 0) parameters.prefetch(exec, unit - 1);
      block_recompute<T>(silent_context(exec, static_cast<Index>(layer)), recompute, weights.blocks[layer],
                         blocks[layer]);
      block_backward<T>(context(exec, static_cast<Index>(layer)), weights.blocks[layer],
                        gradients.blocks[layer], blocks[layer]);
      parameters.release(unit);
      parameters.retire_gradient(exec, unit);
    }
    {
      auto phase = timers.phase("embedding");
      embedding_backward<T>(exec, token_index, workspace.gradient, gradients.embedding);
      if (learned_positions(architecture))
        embedding_backward<T>(exec, position_index, workspace.gradient, gradients.positions);
    }
    parameters.retire_gradient(exec, 0);
  }
};

template <class T>
Transformer<T>::Transformer(const Architecture& architecture, config::Recompute recompute, Attend<T>& attend,
                            Index rows, Index positions, PhaseTimers& timers) {
  if (architecture.layers < 1) throw std::invalid_argument("a transformer has at least one block");
  impl_ = std::make_unique<Implementation>(architecture, recompute, attend, rows, positions, timers);
}
template <class T>
Transformer<T>::~Transformer() = default;

template <class T>
void Transformer<T>::set_dropout(double probability, std::uint64_t seed, std::span<const Index> tokens) {
  if (static_cast<Index>(tokens.size()) != impl_->rows)
    throw std::invalid_argument("set_dropout: one index for each row of the model");
  impl_->dropout = {probability, seed, Vector<Index>(uninitialized("minisp::dropout::tokens"), tokens.size()),
                    0};
  Kokkos::deep_copy(impl_->dropout.tokens, HostVector<const Index>(tokens.data(), tokens.size()));
}

template <class T>
void Transformer<T>::set_tokens(const Exec& exec, const TokenRows& rows) {
  if (static_cast<Index>(rows.tokens.size()) != impl_->rows)
    throw std::invalid_argument(
        fmt::format("a batch of {} tokens for a model of {} rows", rows.tokens.size(), impl_->rows));
  Kokkos::deep_copy(exec, impl_->tokens, as_view(rows.tokens));
  Kokkos::deep_copy(exec, impl_->labels, as_view(rows.labels));
  Kokkos::deep_copy(exec, impl_->positions, as_view(rows.positions));
  impl_->token_index.set(as_view(rows.tokens));
  impl_->dropout.first_token = rows.first_token;
  if (learned_positions(impl_->architecture)) impl_->position_index.set(as_view(rows.positions));
}

template <class T>
double Transformer<T>::forward_backward(const Exec& exec, ParameterAccess<T>& parameters, double loss_scale) {
  impl_->forward(exec, parameters);
  const double loss = impl_->head(exec, parameters, loss_scale);
  impl_->backward(exec, parameters);
  return loss;
}

template <class T>
void Transformer<T>::forward(const Exec& exec, ParameterAccess<T>& parameters) {
  impl_->forward(exec, parameters);
  parameters.release(impl_->final_unit());
}

template <class T>
Matrix<const T> Transformer<T>::hidden() const {
  return impl_->workspace.normed;
}

template <class T>
void Transformer<T>::observe(Observer observer) {
  impl_->observer = std::move(observer);
}

template <class T>
ModelMemory Transformer<T>::memory(const Architecture& a, config::Recompute recompute,
                                   const HeadLayout& layout, Index rows, Index positions) {
  const Index element = sizeof(T), sum = sizeof(Accumulate<T>);
  const Index up = (a.mlp == config::Mlp::swiglu ? 2 : 1) * a.intermediate;
  const Index norm_states = (a.norm == config::Norm::layer ? 2 : 1) * sum;
  // A block keeps its input, the residual stream after attention and the MLP's inner input, beside what
  // attention keeps; recomputed in full, all blocks share all but the input.
  const Index input = element * a.hidden + norm_states;
  Index inner = element * (a.hidden + up) + norm_states;
  if (a.qk_norm) inner += element * layout.fused_width();
  const Index inners = recompute == config::Recompute::full ? 1 : a.layers;
  const Index saved = rows * (a.layers * input + inners * inner + element * a.hidden + norm_states + sum +
                              3 * Index(sizeof(int)));
  Index workspace = rows * element * (3 * a.hidden + layout.fused_width() + a.intermediate);
  if (is_mixed<T> && layout.blocks > 1) workspace += rows * sum * a.hidden;
  workspace += LogitTile<T>::bytes(head_rows(rows), a.vocabulary);
  if (!learned_positions(a)) workspace += sum * positions * a.head_dim;
  workspace += sum * math::column_sum_workspace(rows, std::max(2 * a.hidden, up));
  return {saved, workspace};
}

template class Transformer<bfloat16>;
template class Transformer<float>;
template class Transformer<double>;

}  // namespace minisp::model
