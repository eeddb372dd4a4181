// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// ZeRO-1, -2, -3 and MiCS under every decomposition: the same numbers as one rank that holds everything, the
// bytes of the formulas, the memory of the shards.
#include "parallel/training_support.hpp"

#include <gtest/gtest.h>

namespace minisp::test {
namespace {

using config::Family;
using config::OptimizerKind;
using config::Sharding;

// Reordered sums of fp64; AdamW divides by the gradient's own size, which lifts the error of small elements.
constexpr double sgd_tolerance = 1e-12, adamw_tolerance = 1e-11;

config::Config config_of(const config::Architecture& model, const Decomposition& d, Sharding sharding) {
  auto config = training_config(model, d.batch, sequence_length);
  config.parallel = d.parallel;
  config.parallel.sharding = sharding;
  config.train.accumulation = 2;
  config.train.clip = 0.5;
  config.train.learning_rate = 1e-2;
  config.data.end_of_document = 0;
  return config;
}

struct Steps {
  std::vector<double> losses, norms, gradients, weights;
  std::vector<std::string> traffic_differences;

  bool operator==(const Steps&) const = default;
};

Steps steps_of(const comm::Communicator& world, const config::Config& config, int count = 3) {
  const auto tokens = packed_tokens(config.model.vocabulary);
  Training<double> training(world, config, tokens);
  world.ledger().reset();
  Steps steps;
  for (int step = 0; step < count; ++step) {
    const auto result = training.trainer.step();
    steps.losses.push_back(result.loss);
    steps.norms.push_back(result.gradient_norm);
  }
  steps.traffic_differences = parallel::compare(world.ledger(), training.trainer.expected_traffic(count));
  steps.gradients = host_copy(training.trainer.gradients());
  steps.weights = host_copy(training.trainer.weights());
  return steps;
}

void expect_close(const Steps& steps, const Steps& alone, double tolerance, const std::string& what) {
  EXPECT_LT(error_of(steps.losses, alone.losses), tolerance) << what;
  EXPECT_LT(error_of(steps.norms, alone.norms), tolerance) << what;
  EXPECT_LT(error_of(steps.gradients, alone.gradients), tolerance) << what;
  EXPECT_LT(error_of(steps.weights, alone.weights), tolerance) << what;
  EXPECT_TRUE(steps.traffic_differences.empty()) << what << ": " << steps.traffic_differences.front();
}

/// No group, one group of all ranks, and where there is one, a group of two.
std::vector<Decomposition> chosen_decompositions(int ranks) {
  std::vector<Decomposition> chosen{{parallel::of(config::System::data_parallel), ranks},
                                    {parallel::ulysses(ranks), 2}};
  if (ranks > 2 && ranks % 2 == 0) chosen.push_back({parallel::basp(), ranks / 2});
  return chosen;
}

class ShardingTest : public testing::TestWithParam<OptimizerKind> {};

TEST_P(ShardingTest, EqualsOneRankWhateverIsSharded) {
  const auto world = comm::Communicator::world();
  const auto self = comm::Communicator::self();
  const bool sgd = GetParam() == OptimizerKind::sgd;
  // A vocabulary that no rank count divides; tied and untied heads, whose units are gathered differently.
  auto model = small_model(Family::qwen3, 24, 24);
  model.tied_head = sgd;
  for (const auto& d : chosen_decompositions(world.size())) {
    auto config = config_of(model, d, Sharding::none);
    config.train.optimizer = GetParam();
    auto alone_config = config;
    alone_config.parallel = {};
    const auto alone = steps_of(self, alone_config);
    const auto expect_equal = [&](Sharding sharding, Index shard_ranks) {
      config.parallel.sharding = sharding;
      config.parallel.shard_ranks = shard_ranks;
      expect_close(steps_of(world, config), alone, sgd ? sgd_tolerance : adamw_tolerance,
                   fmt::format("{}, {} of {}", d.name(), to_string(sharding), shard_ranks));
    };
    for (const auto sharding : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
      expect_equal(sharding, 0);
    for (Index p = 1; p <= std::min(world.size(), 3); ++p)
      if (world.size() % p == 0) expect_equal(Sharding::mics, p);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ShardingTest, testing::Values(OptimizerKind::sgd, OptimizerKind::adamw));

TEST(Prefetch, ChangesNoBit) {
  const auto world = comm::Communicator::world();
  const Decomposition d{parallel::of(config::System::data_parallel), world.size()};
  for (const auto sharding : {Sharding::zero3, Sharding::mics}) {
    auto config = config_of(small_model(Family::llama, 8, 2), d, sharding);
    config.parallel.prefetch = true;
    const auto on = steps_of(world, config);
    config.parallel.prefetch = false;
    EXPECT_EQ(on, steps_of(world, config)) << to_string(sharding);
  }
}

/// Ranks that come late, gathers that arrive at once or only when waited for: who reads too early, or writes
/// into what is still arriving, gets other bits.
TEST(Prefetch, ChangesNoBitUnderDelays) {
  const auto world = comm::Communicator::world();
  for (const auto& d : chosen_decompositions(world.size()))
    for (const auto sharding : {Sharding::zero3, Sharding::mics}) {
      auto config = config_of(small_model(Family::llama, 24, 24), d, sharding);
      config.train.recompute = config::Recompute::full;
      config.parallel.prefetch = false;
      const auto calm = steps_of(world, config, 2);
      config.parallel.prefetch = true;
      for (const std::uint64_t seed : {1, 2, 3}) {
        comm::WorldOptions options;
        options.delays = comm::Delays{seed, 2e-4};
        EXPECT_EQ(steps_of(comm::Communicator::world(options), config, 2), calm)
            << d.name() << ", " << to_string(sharding) << ", seed " << seed;
      }
    }
}

/// Gradients are summed in rank order whatever is sharded, so that without clipping all stages give the same
/// bits.
TEST(Sharding, StagesGiveTheSameBits) {
  const auto world = comm::Communicator::world();
  const Decomposition d{parallel::of(config::System::data_parallel), world.size()};
  const auto bits = [&](Sharding sharding) {
    auto config = config_of(small_model(Family::gpt2, 4, 4), d, sharding);
    config.train.clip = 0;
    config.train.accumulation = 1;
    auto steps = steps_of(world, config);
    steps.norms.clear();  // summed shard by shard
    return steps;
  };
  const auto none = bits(Sharding::none);
  for (const auto sharding : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
    EXPECT_EQ(bits(sharding), none) << to_string(sharding);
}

/// Psi elements of 8 bytes: weights, gradients and two moments, whole or an N-th, but for the padding of
/// chunks.
TEST(Sharding, MemoryOfStates) {
  const auto world = comm::Communicator::world();
  const Index n = world.size();
  const Decomposition d{parallel::of(config::System::data_parallel), n};
  const auto model = small_model(Family::llama, 8, 2);
  const Index psi = 8 * model.parameters();
  const Index padding = 8 * n * (model.layers + 2);
  const auto states = [&](Sharding sharding) {
    auto config = config_of(model, d, sharding);
    config.train.optimizer = OptimizerKind::adamw;
    const auto m =
        train::Trainer<double>::predict_memory(config, plan_of(config, world.size()), world.rank());
    return m.weights + m.gradients + m.optimizer;
  };
  EXPECT_EQ(states(Sharding::none), 4 * psi);
  EXPECT_NEAR(double(states(Sharding::zero1)), double(2 * psi + 2 * psi / n), 4 * padding);
  EXPECT_NEAR(double(states(Sharding::zero2)), double(psi + 3 * psi / n), 4 * padding);
  EXPECT_NEAR(double(states(Sharding::zero3)), double(4 * psi / n), 4 * padding);
}

}  // namespace
}  // namespace minisp::test
