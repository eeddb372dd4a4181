// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Activations that are made anew are the same bits, and their exchanges are counted.
#include "parallel/training_support.hpp"

#include <gtest/gtest.h>

namespace minisp::test {
namespace {

using config::Family;
using config::Recompute;

config::Config config_of(Family family, const config::ParallelConfig& parallel, Index batch) {
  // 24 heads: shared evenly by 1, 2, 3, 4, 6 and 8 ranks.
  auto config =
      training_config(small_model(family, 24, family == Family::gpt2 ? 24 : 12), batch, sequence_length);
  config.model.layers = 3;
  config.model.kv_heads = 24;
  config.parallel = parallel;
  config.train.accumulation = 2;
  config.train.clip = 0.3;
  config.data.end_of_document = 0;
  if (family == Family::qwen3) config.train.dropout = 0.25;
  return config;
}

TEST(Recompute, ChangesNoBitAndCountsItsExchanges) {
  const auto world = comm::Communicator::world();
  const int n = world.size();
  for (const auto family : {Family::llama, Family::qwen3, Family::gpt2})
    for (const auto& [parallel, batch] : {std::pair(parallel::of(config::System::data_parallel), Index(n)),
                                          std::pair(parallel::ulysses(n), Index(2))}) {
      auto config = config_of(family, parallel, batch);
      const auto tokens = packed_tokens(config.model.vocabulary);
      const auto kept = train_steps<double>(world, config, tokens, 2);
      for (const auto recompute : {Recompute::selective, Recompute::full}) {
        config.train.recompute = recompute;
        EXPECT_EQ(train_steps<double>(world, config, tokens, 2), kept) << to_string(recompute);

        Training<double> training(world, config, tokens);
        world.ledger().reset();
        training.trainer.step();
        const auto differences = parallel::compare(world.ledger(), training.trainer.expected_traffic(1));
        EXPECT_TRUE(differences.empty()) << differences.front();
      }
    }
}

/// By the formulas that MemoryTracker confirms in every run: selective keeps one output and log-sum-exp in
/// place of one a layer, full one block in place of all, and every block's input.
TEST(Recompute, KeepsLess) {
  auto config = config_of(Family::llama, parallel::of(config::System::single), 4);
  const auto saved = [&](Recompute recompute) {
    config.train.recompute = recompute;
    return train::Trainer<double>::predict_memory(config, plan_of(config, 1), 0).saved;
  };
  const auto& a = config.model;
  const Index rows = 4 * sequence_length, layers = a.layers;
  const Index none = saved(Recompute::none),
              block = 8 * rows * (a.hidden + 2 * a.intermediate + 4 * a.q_size());
  EXPECT_EQ(none - saved(Recompute::selective), (layers - 1) * 8 * rows * (a.q_size() + a.heads));
  // Beside the block's tensors: log-sum-exp of every head and the inverse root mean square of the second
  // norm.
  EXPECT_EQ(none - saved(Recompute::full), (layers - 1) * (block + 8 * rows * (a.heads + 1)));
}

}  // namespace
}  // namespace minisp::test
