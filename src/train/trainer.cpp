// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "train/trainer.hpp"

#include "comm/scalars.hpp"
#include "math/gemm.hpp"

#include <chrono>
#include <type_traits>

namespace minisp::train {

namespace {

// Labels in the ledger.
constexpr const char* token_count_phase = "token count";
constexpr const char* loss_phase = "loss";

Index model_positions(const config::Config& config) {
  return config.model.positions == config::Positions::learned ? config.model.max_positions
                                                              : config.train.sequence_length;
}

parallel::StoreOptions store_options(const config::Config& config) {
  return {config.parallel.prefetch, config.train.gradient_precision == config::GradientPrecision::fp32};
}

}  // namespace

template <class T>
Trainer<T>::Trainer(const config::Config& config, const parallel::Mesh& mesh, const TokenSource& tokens,
                    PhaseTimers& timers)
    : config_(config),
      mesh_(mesh),
      tokens_(tokens),
      timers_(timers),
      layout_(config.model),
      store_(mesh, config.model, layout_, store_options(config), timers),
      attend_(mesh, config.model, timers),
      transformer_(config.model, config.train.recompute, attend_, mesh.plan().rows(mesh.rank()),
                   model_positions(config), timers),
      optimizer_(config.train, store_.state_elements()),
      micro_batches_(static_cast<std::size_t>(config.train.accumulation)) {
  math::require_gemm<T>();
  const Exec exec;
  if (config.train.dropout > 0)
    transformer_.set_dropout(config.train.dropout, config.train.seed, mesh.plan().token_indices(mesh.rank()));
  if (config.random_weights) {
    for (const auto& piece : store_.pieces())
      model::initialize_parameters(exec, layout_, config.train.seed, config.train.initial_standard_deviation,
                                   piece.first, piece.master);
  } else {
    load_weights<T>(config.model_folder, layout_, store_.pieces());
  }
  store_.round_weights(exec);
  store_.publish_weights(exec);
}

template <class T>
std::vector<std::int32_t> Trainer<T>::group_rows(Index micro) const {
  const auto& group = mesh_.group();
  const auto width = static_cast<std::size_t>(config_.train.sequence_length + 1);
  std::vector<std::int32_t> rows(static_cast<std::size_t>(group.sequences()) * width);
  const Index first = (steps_done_ * config_.train.accumulation + micro) * config_.train.batch;
  for (Index s = 0; s < group.sequences(); ++s)
    tokens_.row(first + group.sequence_begin + s,
                std::span(rows).subspan(static_cast<std::size_t>(s) * width, width));
  return rows;
}

/// Fills micro_batches_ and returns the number of valid tokens of the whole step.
template <class T>
Index Trainer<T>::load_batch() {
  auto phase = timers_.phase("data");
  Index valid = 0;
  for (std::size_t micro = 0; micro < micro_batches_.size(); ++micro) {
    auto& batch = micro_batches_[micro];
    parallel::partition_batch(mesh_.plan(), mesh_.rank(), group_rows(static_cast<Index>(micro)),
                              config_.data.end_of_document, batch);
    valid += batch.valid_tokens;
  }
  auto label = mesh_.world().ledger().phase(token_count_phase);
  return comm::sum(mesh_.world(), valid);
}

template <class T>
StepResult Trainer<T>::accumulate_gradients(const Exec& exec) {
  StepResult result;
  result.valid_tokens = load_batch();
  visible_pairs_ = 0;
  {
    auto phase = timers_.phase("zero_gradients");
    store_.zero_gradients(exec);
  }
  // A step without any valid token has no loss and no gradient, and nothing to divide by.
  const double scale = result.valid_tokens > 0 ? 1.0 / static_cast<double>(result.valid_tokens) : 0.0;
  double loss = 0;
  const Index micro_tokens = config_.train.batch * config_.train.sequence_length;
  Index first_token = steps_done_ * config_.train.accumulation * micro_tokens;
  for (const auto& batch : micro_batches_) {
    {
      auto phase = timers_.phase("data");
      attend_.set_documents(batch.document_starts);
      transformer_.set_tokens(exec, {batch.tokens, batch.labels, batch.positions, first_token});
    }
    first_token += micro_tokens;
    visible_pairs_ += attend_.visible_pairs();
    loss += transformer_.forward_backward(exec, store_, scale);
  }
  store_.finish_gradients(exec);
  auto phase = timers_.phase("loss_reduction");
  auto label = mesh_.world().ledger().phase(loss_phase);
  result.loss = comm::sum(mesh_.world(), loss) * scale;
  return result;
}

template <class T>
StepResult Trainer<T>::compute_gradients() {
  const Exec exec;
  StepResult result = accumulate_gradients(exec);
  auto phase = timers_.phase("gradient_norm");
  result.gradient_norm = store_.gradient_norm(exec);
  return result;
}

template <class T>
StepResult Trainer<T>::step() {
  const auto start = std::chrono::steady_clock::now();
  StepResult result = compute_gradients();
  result.learning_rate = learning_rate(config_.train, steps_done_);
  {
    auto phase = timers_.phase("optimizer");
    const Exec exec;
    optimizer_.begin_step(clip_factor(result.gradient_norm, config_.train.clip), result.learning_rate);
    for (const auto& piece : store_.pieces())
      piece.gradients.visit([&](const auto& gradients) {
        using G = typename std::decay_t<decltype(gradients)>::value_type;
        optimizer_.template update<G>(exec, piece.master, piece.weights, gradients, piece.state);
      });
  }
  store_.publish_weights(Exec());
  ++steps_done_;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

template <class T>
std::vector<State<Accumulate<T>>> Trainer<T>::states() const {
  State<Accumulate<T>> weights{
      "weights", "Weights after the step; in mixed precision the master weights", {}};
  for (const auto& piece : store_.pieces()) weights.parts.push_back({piece.first, piece.master});
  std::vector<State<Accumulate<T>>> states{weights};
  for (const auto& moment : optimizer_.moments()) {
    State<Accumulate<T>> state{moment.name, moment.description, {}};
    for (const auto& piece : store_.pieces()) {
      const auto range = Kokkos::make_pair(piece.state, piece.state + Index(piece.master.extent(0)));
      state.parts.push_back({piece.first, Kokkos::subview(moment.values, range)});
    }
    states.push_back(state);
  }
  return states;
}

template <class T>
void Trainer<T>::resume(Index steps_done) {
  steps_done_ = steps_done;
  optimizer_.resume(steps_done);
  store_.round_weights(Exec());
  store_.publish_weights(Exec());
}

template <class T>
Matrix<const T> Trainer<T>::forward(const std::vector<std::int32_t>& group_rows) {
  const Exec exec;
  auto& batch = micro_batches_.front();
  parallel::partition_batch(mesh_.plan(), mesh_.rank(), group_rows, config_.data.end_of_document, batch);
  attend_.set_documents(batch.document_starts);
  transformer_.set_tokens(exec, {batch.tokens, batch.labels, batch.positions});
  transformer_.forward(exec, store_);
  return transformer_.hidden();
}

template <class T>
template <class R>
void Trainer<T>::round_weights() {
  using A = Accumulate<T>;
  const Exec exec;
  for (const auto& piece : store_.pieces()) {
    const auto master = piece.master;
    Kokkos::parallel_for(
        "minisp::trainer::round_weights", RowPolicy(exec, 0, static_cast<Index>(master.extent(0))),
        KOKKOS_LAMBDA(const Index i) { master(i) = static_cast<A>(static_cast<R>(master(i))); });
  }
  store_.round_weights(exec);
  store_.publish_weights(exec);
}

template <class T>
std::vector<parallel::ExpectedTraffic> Trainer<T>::expected_traffic(Index steps) const {
  const parallel::TrafficModel traffic(mesh_.plan(), mesh_.rank(), mesh_.world().nodes());
  auto expected = traffic.attention(config_.model, sizeof(T), steps * config_.train.accumulation,
                                    config_.train.recompute == config::Recompute::full ? 2 : 1);
  expected.push_back(traffic.scalars(token_count_phase, steps));
  const std::size_t gradient_bytes =
      store_options(config_).wide_gradients ? sizeof(Accumulate<T>) : sizeof(T);
  for (auto& line : traffic.parameters(layout_.units(), config_.model.tied_head, sizeof(T), gradient_bytes,
                                       steps, config_.train.accumulation))
    expected.push_back(std::move(line));
  expected.push_back(traffic.scalars(loss_phase, steps));
  return expected;
}

template <class T>
MemoryPrediction Trainer<T>::predict_memory(const config::Config& config, const parallel::Plan& plan,
                                            int rank) {
  const auto& a = config.model;
  const Index rows = plan.rows(rank);
  const model::HeadLayout layout{plan.sequence_degree, static_cast<int>(a.heads),
                                 static_cast<int>(a.kv_heads), static_cast<int>(a.head_dim)};
  const auto model =
      model::Transformer<T>::memory(a, config.train.recompute, layout, rows, model_positions(config));
  MemoryPrediction memory;
  const auto store = parallel::ParameterStore<T>::memory(a, plan, store_options(config));
  memory.weights = store.weights;
  memory.gradients = store.gradients;
  memory.optimizer = store.master;
  if (config.train.optimizer == config::OptimizerKind::adamw)
    memory.optimizer += 2 * store.state_elements * Index(sizeof(Accumulate<T>));
  const auto attend = parallel::attend_state_bytes(plan, rank, a, sizeof(T), sizeof(Accumulate<T>));
  const auto recompute = config.train.recompute;
  const Index kept = recompute == config::Recompute::full ? 1 : a.layers;
  const Index made = recompute == config::Recompute::none ? a.layers : 1;
  memory.saved =
      model.saved + kept * static_cast<Index>(attend.kept) + made * static_cast<Index>(attend.made);
  if (config.train.dropout > 0) memory.saved += rows * Index(sizeof(Index));
  memory.workspace = model.workspace + store.workspace +
                     static_cast<Index>(parallel::attend_shared_bytes(plan, rank, a, sizeof(T))) +
                     static_cast<Index>(model::Attention<T>::workspace_bytes(
                         layout.blocks * rows, layout.q_heads(), layout.kv_heads(), layout.head_dim));
  memory.communication = store.communication;
  return memory;
}

template class Trainer<bfloat16>;
template class Trainer<float>;
template class Trainer<double>;
template void Trainer<bfloat16>::round_weights<bfloat16>();
template void Trainer<float>::round_weights<bfloat16>();
template void Trainer<double>::round_weights<bfloat16>();

}  // namespace minisp::train
