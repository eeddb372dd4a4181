// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Training in bf16 with fp32 master weights: what is sharded or made anew changes no bit, every decomposition
// errs about as one rank does, bytes and memory are those of the formulas.
#include "parallel/training_support.hpp"
#include "util/memory_tracker.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace minisp::test {
namespace {

using config::Family;
using config::GradientPrecision;
using config::OptimizerKind;
using config::Recompute;
using config::Sharding;

config::Config config_of(const config::Architecture& model, const Decomposition& d) {
  auto config = training_config(model, d.batch, sequence_length);
  config.parallel = d.parallel;
  config.data.end_of_document = 0;
  config.train.precision = config::Precision::bf16;
  config.train.optimizer = OptimizerKind::adamw;
  config.train.learning_rate = 1e-3;
  return config;
}

template <class T>
struct Steps {
  std::vector<double> losses, norms;
  std::vector<float> gradients;  // of the last step
  std::vector<double> weights;
  std::vector<std::string> traffic_differences;

  bool operator==(const Steps&) const = default;
};

template <class T>
Steps<T> steps_of(const comm::Communicator& world, const config::Config& config, int count = 3) {
  const auto tokens = packed_tokens(config.model.vocabulary);
  Training<T> training(world, config, tokens);
  world.ledger().reset();
  Steps<T> steps;
  for (int step = 0; step < count; ++step) {
    const auto result = training.trainer.step();
    steps.losses.push_back(result.loss);
    steps.norms.push_back(result.gradient_norm);
  }
  steps.traffic_differences = parallel::compare(world.ledger(), training.trainer.expected_traffic(count));
  for (const auto x : host_copy(training.trainer.gradients()))
    steps.gradients.push_back(static_cast<float>(x));
  for (const auto x : host_copy(training.trainer.weights())) steps.weights.push_back(static_cast<double>(x));
  return steps;
}

Decomposition one_sequence_a_rank(const comm::Communicator& world) {
  return {parallel::of(config::System::data_parallel), world.size()};
}

/// Sums over ranks are rounded once, in rank order, whatever is sharded: without clipping (norms are summed
/// shard by shard) and within one micro-step all stages give the same bits.
TEST(MixedPrecision, StagesGiveTheSameBits) {
  const auto world = comm::Communicator::world();
  for (const auto gradients : {GradientPrecision::model, GradientPrecision::fp32}) {
    const auto bits = [&](Sharding sharding) {
      auto config = config_of(small_model(Family::qwen3, 8, 2), one_sequence_a_rank(world));
      config.parallel.sharding = sharding;
      config.train.gradient_precision = gradients;
      auto steps = steps_of<bfloat16>(world, config);
      EXPECT_TRUE(steps.traffic_differences.empty())
          << to_string(sharding) << steps.traffic_differences.front();
      steps.norms.clear();
      return steps;
    };
    const auto none = bits(Sharding::none);
    for (const auto sharding : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      EXPECT_EQ(bits(sharding), none) << to_string(sharding) << ", gradients " << to_string(gradients);
  }
}

TEST(MixedPrecision, RecomputationAndPrefetchChangeNoBit) {
  const auto world = comm::Communicator::world();
  auto config = config_of(small_model(Family::llama, 24, 24), {parallel::ulysses(world.size()), 2});
  config.parallel.sharding = Sharding::zero3;
  config.train.accumulation = 2;
  config.train.clip = 0.5;
  auto kept = steps_of<bfloat16>(world, config);
  kept.traffic_differences.clear();
  for (const auto recompute : {Recompute::selective, Recompute::full}) {
    config.train.recompute = recompute;
    config.parallel.prefetch = recompute == Recompute::full;
    auto again = steps_of<bfloat16>(world, config);
    EXPECT_TRUE(again.traffic_differences.empty()) << again.traffic_differences.front();
    EXPECT_EQ(again, kept) << to_string(recompute);
  }
}

template <class Value>
double error_of(const std::vector<Value>& a, const std::vector<Value>& b) {
  return test::error_of(std::vector<double>(a.begin(), a.end()), std::vector<double>(b.begin(), b.end()));
}

/// The error of bf16 against fp64 is a property of the model; splitting it may change it by the order of sums
/// alone, and lets it grow to twice as much at most. (Gradients of several ranks are rounded to bf16 once
/// more, by 2^-9.)
TEST(MixedPrecision, EveryDecompositionErrsAsOneRank) {
  const auto world = comm::Communicator::world();
  const auto self = comm::Communicator::self();
  for (const auto& d : decompositions(world.size())) {
    auto config = config_of(small_model(Family::qwen3, 24, 8), d);
    if (!fits(d, world.size(), config.model)) continue;
    auto alone = config;
    alone.parallel = {};
    const auto exact = steps_of<double>(self, alone, 1);
    const auto one = steps_of<bfloat16>(self, alone, 1);
    for (const auto sharding : {Sharding::none, Sharding::mics}) {
      config.parallel.sharding = sharding;
      const auto many = steps_of<bfloat16>(world, config, 1);
      const auto allowed = [](double error) { return 2 * std::max(error, 1.0 / 512); };
      EXPECT_LT(error_of(many.losses, exact.losses), allowed(error_of(one.losses, exact.losses))) << d.name();
      EXPECT_LT(error_of(many.gradients, exact.gradients), allowed(error_of(one.gradients, exact.gradients)))
          << d.name();
      EXPECT_LT(error_of(many.weights, exact.weights), allowed(error_of(one.weights, exact.weights)))
          << d.name();
      EXPECT_TRUE(many.traffic_differences.empty()) << many.traffic_differences.front();
    }
    // And it is bf16: the error is there.
    EXPECT_GT(error_of(one.gradients, exact.gradients), 1e-4);
  }
}

/// 16 Psi, 4 Psi + 12 Psi/N, 2 Psi + 14 Psi/N and 16 Psi/N bytes (ZeRO, arXiv:1910.02054, section 3.1), and
/// 18 Psi where gradients are in fp32: what the parameter store and the optimizer hold, measured, without
/// what holds one unit at a time.
TEST(MixedPrecision, MemoryOfStates) {
  const auto world = comm::Communicator::world();
  MemoryTracker::install();
  const double n = world.size();
  auto model = small_model(Family::llama, 8, 2);
  model.hidden = 96;
  model.intermediate = 256;
  const double psi = static_cast<double>(model.parameters());
  const auto states = [&](Sharding sharding, GradientPrecision gradients) {
    auto config = config_of(model, one_sequence_a_rank(world));
    config.parallel.sharding = sharding;
    const parallel::Mesh mesh(world, plan_of(config, world.size()));
    PhaseTimers timers;
    const model::ParameterLayout layout(model);
    const parallel::StoreOptions options{true, gradients == GradientPrecision::fp32};
    const auto before = MemoryTracker::current();
    const parallel::ParameterStore<bfloat16> store(mesh, model, layout, options, timers);
    const train::Optimizer<bfloat16> optimizer(config.train, store.state_elements());
    const auto formula = parallel::ParameterStore<bfloat16>::memory(model, mesh.plan(), options);
    return static_cast<double>(MemoryTracker::current() - before) - static_cast<double>(formula.workspace);
  };
  const auto expect = [&](Sharding sharding, GradientPrecision gradients, double bytes) {
    EXPECT_NEAR(states(sharding, gradients) / bytes, 1, 0.05) << to_string(sharding);
  };
  expect(Sharding::none, GradientPrecision::model, 16 * psi);
  expect(Sharding::zero1, GradientPrecision::model, 4 * psi + 12 * psi / n);
  expect(Sharding::zero2, GradientPrecision::model, 2 * psi + 14 * psi / n);
  expect(Sharding::zero3, GradientPrecision::model, 16 * psi / n);
  expect(Sharding::none, GradientPrecision::fp32, 18 * psi);
  expect(Sharding::zero3, GradientPrecision::fp32, 18 * psi / n);
}

}  // namespace
}  // namespace minisp::test
