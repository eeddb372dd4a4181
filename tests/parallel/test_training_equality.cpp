// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Every decomposition trains as one rank does.
#include "parallel/training_support.hpp"

#include <gtest/gtest.h>

namespace minisp::test {
namespace {

using comm::Communicator;
using config::Family;

struct Case {
  const char* name;
  Family family;
  Index heads, kv_heads;
  bool tied;
  bool packed;
  Index accumulation;
};

config::Config config_of(const Case& c, const Decomposition& d) {
  auto model = small_model(c.family, c.heads, c.kv_heads);
  model.tied_head = c.tied;
  auto config = training_config(model, d.batch, sequence_length);
  config.parallel = d.parallel;
  config.train.accumulation = c.accumulation;
  config.train.clip = 0.3;
  if (c.packed) config.data.end_of_document = 0;
  if (c.accumulation > 1) config.train.dropout = 0.2;
  return config;
}

/// Cases whose heads can be shared by 2, 4 and 8 ranks, and by 3 and 6.
const std::vector<Case>& cases(int ranks) {
  static const std::vector<Case> of_powers = {
      {"llama, grouped", Family::llama, 8, 4, false, false, 1},
      {"llama, tied, packed, accumulated, dropout", Family::llama, 8, 2, true, true, 2},
      {"qwen2, one K/V head, packed", Family::qwen2, 8, 1, true, true, 1},
      {"qwen3", Family::qwen3, 8, 2, false, false, 1},
      {"gpt2, packed", Family::gpt2, 8, 8, true, true, 1},
  };
  static const std::vector<Case> of_threes = {
      {"llama, grouped", Family::llama, 12, 6, false, false, 1},
      {"llama, tied, packed, accumulated, dropout", Family::llama, 12, 3, true, true, 2},
      {"qwen2, one K/V head, packed", Family::qwen2, 6, 1, true, true, 1},
      {"qwen3", Family::qwen3, 6, 3, false, false, 1},
      {"gpt2, packed", Family::gpt2, 6, 6, true, true, 1},
  };
  return ranks % 3 == 0 ? of_threes : of_powers;
}

std::string text_of(const Case& c, const Decomposition& d) {
  return std::string(c.name) + ": " + d.name();
}

/// `limit`: of the relative 2-norm of every tensor.
void expect_equal_tensors(const model::ParameterLayout& layout, const std::vector<double>& a,
                          const std::vector<double>& b, double limit, const std::string& what) {
  for (const auto& entry : layout.entries()) {
    const double error =
        train::relative_error(a.data() + entry.offset, b.data() + entry.offset, entry.size());
    EXPECT_LE(error, limit) << what << " of " << entry.name;
  }
}

// The same sums of some hundred terms in another order: some 1e-15, more where a tensor's gradient is a small
// rest of larger terms. Five steps of SGD at a rate of 0.1 do not enlarge that.
TEST(Training, EveryDecompositionEqualsOneRank) {
  const auto world = Communicator::world();
  const auto self = Communicator::self();
  int compared = 0;
  for (const auto& c : cases(world.size()))
    for (const auto& d : decompositions(world.size())) {
      const auto config = config_of(c, d);
      if (!fits(d, world.size(), config.model)) continue;
      const auto tokens =
          c.packed ? packed_tokens(config.model.vocabulary) : plain_tokens(config.model.vocabulary);
      const auto outcome = train_steps<double>(world, config, tokens, 5);
      EXPECT_EQ(outcome.ranks_that_differ, 0) << text_of(c, d);
      ++compared;
      if (world.rank() != 0) continue;
      SCOPED_TRACE(text_of(c, d));
      auto alone = config;
      alone.parallel = {};
      const auto expected = train_steps<double>(self, alone, tokens, 5);
      const model::ParameterLayout layout(config.model);
      EXPECT_LE(error_of(outcome.losses, expected.losses), 1e-12);
      EXPECT_LE(error_of(outcome.norms, expected.norms), 1e-12);
      EXPECT_GT(expected.norms.front(), config.train.clip);  // or clipping is not tested
      expect_equal_tensors(layout, outcome.gradients, expected.gradients, 1e-12, "gradient");
      expect_equal_tensors(layout, outcome.weights, expected.weights, 1e-12, "weights");
    }
  EXPECT_GE(compared, 5 * 3);
}

TEST(Training, SinglePrecisionStaysNearDoubleOnOneRank) {
  const auto world = Communicator::world();
  const auto self = Communicator::self();
  const auto& c = cases(world.size()).front();
  const Decomposition d = {parallel::ulysses(world.size()), 2};
  const auto config = config_of(c, d);
  const auto tokens = plain_tokens(config.model.vocabulary);
  const auto outcome = train_steps<float>(world, config, tokens, 5);
  EXPECT_EQ(outcome.ranks_that_differ, 0);
  auto alone = config;
  alone.parallel = {};
  const auto expected = train_steps<double>(self, alone, tokens, 5);
  const model::ParameterLayout layout(config.model);
  EXPECT_LE(error_of(outcome.losses, expected.losses), 1e-5);
  expect_equal_tensors(layout, {outcome.gradients.begin(), outcome.gradients.end()}, expected.gradients, 1e-5,
                       "gradient");
  expect_equal_tensors(layout, {outcome.weights.begin(), outcome.weights.end()}, expected.weights, 1e-5,
                       "weights");
}

TEST(Training, BaspIsUlyssesInGroupsBitForBit) {
  const auto world = Communicator::world();
  for (const auto& c : cases(world.size()))
    for (Index batch = 1; batch <= world.size(); ++batch) {
      if (world.size() % batch != 0) continue;
      const Decomposition basp = {parallel::basp(), batch};
      const Decomposition ulysses = {parallel::ulysses(world.size() / batch), batch};
      const auto config = config_of(c, basp);
      if (!fits(basp, world.size(), config.model)) continue;
      const auto tokens = packed_tokens(config.model.vocabulary);
      const auto a = train_steps<double>(world, config, tokens, 2);
      const auto b = train_steps<double>(world, config_of(c, ulysses), tokens, 2);
      EXPECT_TRUE(a == b) << text_of(c, basp);
      if (&c != &cases(world.size()).front()) continue;
      const auto single_a = train_steps<float>(world, config, tokens, 2);
      const auto single_b = train_steps<float>(world, config_of(c, ulysses), tokens, 2);
      EXPECT_TRUE(single_a == single_b) << text_of(c, basp);
    }
}

TEST(Training, ARepeatedRunGivesTheSameBits) {
  const auto world = Communicator::world();
  const auto& c = cases(world.size())[1];
  const Decomposition d = {parallel::ulysses(world.size()), 2};
  const auto config = config_of(c, d);
  const auto tokens = packed_tokens(config.model.vocabulary);
  EXPECT_TRUE(train_steps<double>(world, config, tokens, 3) == train_steps<double>(world, config, tokens, 3));
  EXPECT_TRUE(train_steps<float>(world, config, tokens, 3) == train_steps<float>(world, config, tokens, 3));
}

/// One batch, cut in every way: the norm and so the clipped step are the same.
TEST(Training, ClippingDoesNotDependOnTheDecomposition) {
  const auto world = Communicator::world();
  const auto& c = cases(world.size())[1];
  std::vector<Outcome<double>> outcomes;
  for (Index k = 1; k <= world.size(); ++k) {
    if (world.size() % k != 0) continue;
    const Decomposition d = {parallel::ulysses(k), world.size()};
    const auto config = config_of(c, d);
    if (fits(d, world.size(), config.model))
      outcomes.push_back(train_steps<double>(world, config, packed_tokens(config.model.vocabulary), 3));
  }
  for (const auto& outcome : outcomes) {
    EXPECT_LE(error_of(outcome.norms, outcomes.front().norms), 1e-13);
    EXPECT_LE(error_of(outcome.weights, outcomes.front().weights), 1e-13);
  }
}

/// Two models with other head counts alive at once, their steps in turn, each as if it were alone.
TEST(Training, TwoModelsInOneProcess) {
  const auto world = Communicator::world();
  const Decomposition d = {parallel::ulysses(world.size()), 2};
  const auto& first_case = cases(world.size())[0];
  const auto& second_case = cases(world.size())[2];
  const auto first_config = config_of(first_case, d), second_config = config_of(second_case, d);
  const auto tokens = packed_tokens(first_config.model.vocabulary);
  Training<double> first(world, first_config, tokens), second(world, second_config, tokens);
  shake(first.trainer.weights(), 0.1);
  shake(second.trainer.weights(), 0.1);
  for (int step = 0; step < 3; ++step) {
    first.trainer.step();
    second.trainer.step();
  }
  EXPECT_EQ(host_copy(first.trainer.weights()), train_steps<double>(world, first_config, tokens, 3).weights);
  EXPECT_EQ(host_copy(second.trainer.weights()),
            train_steps<double>(world, second_config, tokens, 3).weights);
}

}  // namespace
}  // namespace minisp::test
