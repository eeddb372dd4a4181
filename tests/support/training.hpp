// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Small models of each family, tokens made to measure, and a trainer with all that it needs.
#pragma once

#include "math/random.hpp"
#include "train/trainer.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace minisp::test {

/// A model of `family` with two blocks; head_dim is not hidden / heads, so that no size stands for another.
inline config::Architecture small_model(config::Family family, Index heads, Index kv_heads) {
  config::Architecture a;
  a.family = family;
  a.hidden = 20;
  a.intermediate = 28;
  a.layers = 2;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head_dim = 6;
  a.vocabulary = 31;
  a.max_positions = 64;
  a.norm_epsilon = 1e-5;
  if (family == config::Family::llama)
    a.rope_scaling = config::RopeScaling{.factor = 8, .original_max_positions = 8};  // at work at this length
  a.qkv_bias = family == config::Family::qwen2 || family == config::Family::gpt2;
  a.qk_norm = family == config::Family::qwen3;
  a.tied_head = family == config::Family::gpt2;
  if (family == config::Family::gpt2) {
    a.norm = config::Norm::layer;
    a.positions = config::Positions::learned;
    a.mlp = config::Mlp::gelu_tanh;
    a.linear_bias = true;
  }
  return a;
}

inline config::Config training_config(config::Architecture model, Index batch, Index sequence_length) {
  config::Config config;
  config.model = std::move(model);
  config.train.batch = batch;
  config.train.sequence_length = sequence_length;
  config.train.optimizer = config::OptimizerKind::sgd;
  config.train.learning_rate = 0.1;
  config.train.clip = 0;
  config.train.initial_standard_deviation = 0.2;  // attention that is far from uniform
  return config;
}

/// Token `position` of row `row` by a function.
class TokensOf : public train::TokenSource {
 public:
  using Function = std::function<std::int32_t(Index row, Index position)>;
  explicit TokensOf(Function token) : token_(std::move(token)) {}
  void row(std::int64_t row, std::span<std::int32_t> out) const override {
    for (std::size_t p = 0; p < out.size(); ++p) out[p] = token_(row, static_cast<Index>(p));
  }

 private:
  Function token_;
};

/// Any of the tokens 1 .. vocabulary - 1; 0 is left for the end of a document.
inline std::int32_t random_token(Index vocabulary, Index row, Index position) {
  const double u =
      math::random_uniform(3, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(position));
  return 1 + static_cast<std::int32_t>(u * static_cast<double>(vocabulary - 1));
}

inline parallel::Plan plan_of(const config::Config& config, int ranks) {
  return parallel::make_plan(config.parallel, ranks, config.model, config.train.batch,
                             config.train.sequence_length);
}

/// `world`, `config` and `tokens` outlive it.
template <class T>
struct Training {
  parallel::Mesh mesh;
  PhaseTimers timers;
  train::Trainer<T> trainer;

  Training(const comm::Communicator& world, const config::Config& config, const train::TokenSource& tokens)
      : mesh(world, plan_of(config, world.size())), trainer(config, mesh, tokens, timers) {}
};

template <class View>
std::vector<typename View::non_const_value_type> host_copy(const View& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return {host.data(), host.data() + host.size()};
}

/// weights += deviation * normal: biases leave zero and norms leave one, where errors would hide.
template <class T>
void shake(const Vector<T>& weights, double deviation) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), weights);
  for (std::size_t i = 0; i < host.size(); ++i)
    host(i) += static_cast<T>(deviation * math::random_normal(11, 1, i));
  Kokkos::deep_copy(weights, host);
}

}  // namespace minisp::test
