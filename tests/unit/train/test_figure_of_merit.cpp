// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/presets.hpp"
#include "support/training.hpp"
#include "train/figure_of_merit.hpp"

#include <gtest/gtest.h>

namespace minisp::train {
namespace {

TEST(ModelFlops, OfPresetsByHand) {
  // Llama-3.2-1B, a block: q and o 2 * 2048^2, k and v 2 * 2048 * 512, MLP 3 * 2048 * 8192; 16 blocks; a tied
  // head counts as a product all the same.
  const double llama_weights =
      16.0 * (2 * 2048.0 * 2048 + 2 * 2048.0 * 512 + 3 * 2048.0 * 8192) + 128256.0 * 2048;
  EXPECT_EQ(model_flops(config::preset("llama-3.2-1b"), 1000, 0), 6e3 * llama_weights);
  // Attention: q.k and p.v, 2 * 64 each, forward once and backward twice: 12 * 64 a head of 32 and a pair.
  EXPECT_EQ(model_flops(config::preset("llama-3.2-1b"), 0, 10), 10.0 * 16 * 32 * 64 * 12);
  // GPT-2: qkv 768 * 2304, output 768^2, MLP 2 * 768 * 3072, no gate; learned positions are looked up.
  const double gpt2_weights = 12.0 * (768.0 * 2304 + 768.0 * 768 + 2 * 768.0 * 3072) + 50257.0 * 768;
  EXPECT_EQ(model_flops(config::preset("gpt2"), 1, 0), 6 * gpt2_weights);
  // An untied head counts the same as a tied one.
  auto untied = config::preset("llama-3.2-1b");
  untied.tied_head = false;
  EXPECT_EQ(model_flops(untied, 7, 9), model_flops(config::preset("llama-3.2-1b"), 7, 9));
}

TEST(Median, OfOddAndEvenNumbers) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 3, 100}), 3.5);
  EXPECT_EQ(median({2, 2, 2, 1}), 2);
}

TEST(GemmRate, IsARate) {
  EXPECT_GT(measure_gemm_rate<float>(Exec()), 1e8);  // a slow interpreter of the processor reaches that
}

TEST(VisiblePairs, AreTheTrianglesOfTheDocuments) {
  // Two rows of 8 tokens; the second holds documents of 3 and 5 tokens.
  const test::TokensOf tokens([](Index row, Index p) { return row == 1 && p == 2 ? 0 : 1 + int(p); });
  auto config = test::training_config(test::small_model(config::Family::llama, 4, 2), 2, 8);
  config.data.end_of_document = 0;
  const auto self = comm::Communicator::self();
  test::Training<double> training(self, config, tokens);
  const auto result = training.trainer.compute_gradients();
  EXPECT_EQ(training.trainer.visible_pairs(), 8 * 9 / 2 + 3 * 4 / 2 + 5 * 6 / 2);
  EXPECT_EQ(result.valid_tokens, 8 + 7);  // the end of a document predicts nothing
}

}  // namespace
}  // namespace minisp::train
