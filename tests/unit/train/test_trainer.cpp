// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "support/training.hpp"
#include "train/recorder.hpp"
#include "train/self_check.hpp"
#include "util/memory_tracker.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace minisp::test {
namespace {

using config::Family;
using train::relative_error;

/// Rows with documents of unequal number, so that micro-steps have unequal numbers of valid tokens.
TokensOf packed_tokens(Index vocabulary) {
  return TokensOf(
      [=](Index row, Index p) { return p > 0 && p % (2 + row) == 0 ? 0 : random_token(vocabulary, row, p); });
}

config::Config packed_config(Index batch, Index accumulation, Family family = Family::llama) {
  auto config = training_config(small_model(family, 4, family == Family::gpt2 ? 4 : 2), batch, 12);
  config.train.accumulation = accumulation;
  config.data.end_of_document = 0;
  return config;
}

double error_of(const std::vector<double>& a, const std::vector<double>& b) {
  return relative_error(a.data(), b.data(), static_cast<Index>(a.size()));
}

TEST(Accumulation, TwoMicroStepsOfTwoRowsAreOneOfFour) {
  const auto self = comm::Communicator::self();
  const auto whole_config = packed_config(4, 1), parts_config = packed_config(2, 2);
  const auto tokens = packed_tokens(whole_config.model.vocabulary);
  Training<double> whole(self, whole_config, tokens), parts(self, parts_config, tokens);
  for (int step = 0; step < 3; ++step) {  // step s takes rows 4 s to 4 s + 3 either way
    const auto a = whole.trainer.compute_gradients(), b = parts.trainer.compute_gradients();
    EXPECT_EQ(a.valid_tokens, b.valid_tokens);
    EXPECT_NEAR(a.loss, b.loss, 1e-13 * a.loss);
    // The same sums, cut in two: a few roundings of 1e-16.
    EXPECT_LT(error_of(host_copy(parts.trainer.gradients()), host_copy(whole.trainer.gradients())), 1e-13);
    EXPECT_EQ(whole.trainer.group_rows(0).size(), 4 * 13u);
    whole.trainer.step();
    parts.trainer.step();
  }
}

TEST(Trainer, GradientsAreMadeAnewAndTheBatchStaysUntilAStep) {
  const auto self = comm::Communicator::self();
  const auto config = packed_config(2, 2);
  const auto tokens = packed_tokens(config.model.vocabulary);
  Training<double> training(self, config, tokens);
  auto& trainer = training.trainer;
  const auto first = trainer.compute_gradients();
  const auto gradients = host_copy(trainer.gradients());
  const auto again = trainer.compute_gradients();
  EXPECT_EQ(again.loss, first.loss);
  EXPECT_EQ(host_copy(trainer.gradients()), gradients);  // not added to the old ones; the same bits
  const auto rows = trainer.group_rows(1);
  trainer.step();
  EXPECT_NE(trainer.group_rows(1), rows);
  EXPECT_NE(trainer.compute_gradients().loss, first.loss);
}

TEST(Trainer, AStepIsClippedSgdAtTheScheduledRate) {
  const auto self = comm::Communicator::self();
  auto config = packed_config(2, 1);
  config.train.clip = 0.05;
  config.train.learning_rate_warmup = 2;
  const auto tokens = packed_tokens(config.model.vocabulary);
  Training<double> training(self, config, tokens);
  auto& trainer = training.trainer;
  for (const double rate : {0.05, 0.1, 0.1}) {
    const auto weights = host_copy(trainer.weights());
    const auto result = trainer.step();
    const auto gradients = host_copy(trainer.gradients());
    EXPECT_DOUBLE_EQ(result.learning_rate, rate);
    double square = 0;
    for (const double g : gradients) square += g * g;
    EXPECT_NEAR(result.gradient_norm, std::sqrt(square), 1e-14 * result.gradient_norm);  // before clipping
    EXPECT_GT(result.gradient_norm, 2 * config.train.clip);                              // so that it clips
    std::vector<double> expected;
    for (std::size_t i = 0; i < weights.size(); ++i)
      expected.push_back(weights[i] - rate * 0.05 / (result.gradient_norm + 1e-6) * gradients[i]);
    EXPECT_LT(error_of(host_copy(trainer.weights()), expected), 1e-15);
    EXPECT_GT(result.seconds, 0);
  }
}

TEST(Trainer, LearnsWhatFollowsWhat) {
  const auto self = comm::Communicator::self();
  auto config = training_config(small_model(Family::qwen3, 4, 2), 4, 12);
  config.train.optimizer = config::OptimizerKind::adamw;
  config.train.learning_rate = 0.02;
  config.train.initial_standard_deviation = 0.02;
  const Index vocabulary = config.model.vocabulary;
  const TokensOf tokens(
      [=](Index row, Index p) { return static_cast<std::int32_t>((7 * row + 3 * p) % vocabulary); });
  Training<float> training(self, config, tokens);
  const double first = training.trainer.step().loss;
  EXPECT_NEAR(first, std::log(double(vocabulary)), 0.1);  // knows nothing yet
  double last = first;
  for (int step = 0; step < 40; ++step) last = training.trainer.step().loss;
  EXPECT_LT(last, 0.2 * first);
}

TEST(Trainer, AStepWithoutAnyValidTokenChangesNothing) {
  const auto self = comm::Communicator::self();
  const auto config = packed_config(2, 2);
  const TokensOf only_ends([](Index, Index) { return 0; });
  Training<double> training(self, config, only_ends);
  const auto weights = host_copy(training.trainer.weights());
  const auto result = training.trainer.step();
  EXPECT_EQ(result.valid_tokens, 0);
  EXPECT_EQ(result.loss, 0);
  EXPECT_EQ(result.gradient_norm, 0);
  EXPECT_EQ(host_copy(training.trainer.weights()), weights);
}

TEST(Trainer, Fp32FollowsFp64) {
  const auto self = comm::Communicator::self();
  for (const auto family : {Family::llama, Family::gpt2}) {
    const auto config = packed_config(2, 1, family);
    const auto tokens = packed_tokens(config.model.vocabulary);
    Training<double> exact(self, config, tokens);
    Training<float> single(self, config, tokens);
    const double loss = exact.trainer.compute_gradients().loss;
    EXPECT_NEAR(single.trainer.compute_gradients().loss, loss, 1e-5 * loss);
    const auto gradients = host_copy(single.trainer.gradients());
    EXPECT_LT(error_of({gradients.begin(), gradients.end()}, host_copy(exact.trainer.gradients())), 1e-5);
  }
}

TEST(Recorder, ShowsTheWholeStepAsGlobalArrays) {
  const auto self = comm::Communicator::self();
  for (const auto family : {Family::llama, Family::gpt2}) {
    const auto config = packed_config(2, 2, family);
    const auto tokens = packed_tokens(config.model.vocabulary);
    Training<double> training(self, config, tokens);
    train::Recorder<double> recorder(training.mesh, 2, [](const std::string& name) {
      return name == "logits" || name.rfind("hidden_states/", 0) == 0;
    });
    training.trainer.observe(recorder.observer());
    const auto result = training.trainer.compute_gradients();
    EXPECT_EQ(recorder.names(),
              (std::vector<std::string>{"hidden_states/0", "hidden_states/1", "hidden_states/2", "logits"}));
    EXPECT_EQ(recorder.shape("logits"), (std::vector<Index>{4, 12, 31}));
    EXPECT_EQ(recorder.shape("hidden_states/1"), (std::vector<Index>{4, 12, 20}));

    // The loss once more from the logits, (sequence, position, token), and the labels.
    const auto logits = recorder.gather("logits");
    double loss = 0;
    for (Index row = 0; row < 4; ++row)
      for (Index p = 0; p < 12; ++p) {
        std::vector<std::int32_t> row_tokens(13);
        tokens.row(row, row_tokens);
        if (row_tokens[static_cast<std::size_t>(p)] == 0) continue;
        const double* l = logits.data() + (row * 12 + p) * 31;
        double sum = 0;
        for (int v = 0; v < 31; ++v) sum += std::exp(l[v]);
        loss += std::log(sum) - l[row_tokens[static_cast<std::size_t>(p + 1)]];
      }
    EXPECT_NEAR(loss / double(result.valid_tokens), result.loss, 1e-13);
  }
}

TEST(RelativeError, IsAgainstTheSecondAndNeverHidesNaN) {
  const double a[] = {3, 4}, b[] = {3, 0}, zero[] = {0, 0};
  EXPECT_DOUBLE_EQ(relative_error(a, b, 2), 4.0 / 3);
  EXPECT_DOUBLE_EQ(relative_error(a, b, 2, 8), 0.5);
  EXPECT_EQ(relative_error(zero, zero, 2), 0);
  EXPECT_TRUE(std::isinf(relative_error(a, zero, 2)));
  const double nan[] = {std::numeric_limits<double>::quiet_NaN(), 0};
  EXPECT_TRUE(std::isinf(relative_error(nan, a, 2)));
  EXPECT_TRUE(std::isinf(relative_error(a, nan, 2)));
  EXPECT_TRUE(std::isinf(relative_error(nan, nan, 2)));
}

TEST(SelfCheck, PassesAndSaysWhatItChecked) {
  const auto self = comm::Communicator::self();
  for (const auto family : {Family::llama, Family::qwen2, Family::qwen3, Family::gpt2}) {
    auto config = packed_config(2, 2, family);
    config.data.mean_document_length = 6;
    config.train.precision = config::Precision::fp32;
    const auto checks = train::self_check(self, config);
    EXPECT_EQ(checks.size(), 5u);
    for (const auto& check : checks) EXPECT_TRUE(check.passed) << check.name << " " << check.value;
  }
}

TEST(SelfCheck, TheSmallestVocabularyWillDo) {
  const auto self = comm::Communicator::self();
  auto config = packed_config(2, 1);
  config.model.vocabulary = 2;
  for (const Index end_of_document : {-1, 0}) {
    config.data.end_of_document = end_of_document;
    for (const auto& check : train::self_check(self, config)) EXPECT_TRUE(check.passed) << check.name;
  }
}

TEST(SelfCheck, TheTwinHasTheDecksHeadsAndASmallModel) {
  auto config = packed_config(6, 5);
  auto& m = config.model;
  m.heads = 24;
  m.kv_heads = 8;
  m.head_dim = 128;
  m.hidden = 3072;
  m.intermediate = 8192;
  m.layers = 28;
  m.vocabulary = 128256;
  const auto twin = train::twin_of(config, 3);
  EXPECT_EQ(twin.model.heads, 24);
  EXPECT_EQ(twin.model.kv_heads, 8);
  EXPECT_EQ(twin.train.batch, 6);
  EXPECT_EQ(twin.train.accumulation, 2);
  EXPECT_EQ(twin.train.sequence_length % 3, 0);
  EXPECT_GE(twin.data.end_of_document, 0);
  EXPECT_EQ(twin.train.precision, config::Precision::fp64);
  EXPECT_LT(twin.model.parameters(), 200000);
}

/// Loss of every step of a model that learns a small language; the curve falls from log 31 to near the floor.
template <class T>
std::vector<double> learning_curve(int steps) {
  const auto self = comm::Communicator::self();
  auto config = training_config(small_model(Family::llama, 4, 2), 4, 24);
  config.model.hidden = 32;
  config.model.intermediate = 64;
  config.train.optimizer = config::OptimizerKind::adamw;
  config.train.learning_rate = 3e-3;
  config.train.clip = 1;
  config.train.initial_standard_deviation = 0.05;
  config.data.symbols = 24;
  config.data.branching = 2;
  const auto tokens = train::make_token_source(config);
  Training<T> training(self, config, *tokens);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) losses.push_back(training.trainer.step().loss);
  return losses;
}

/// Rounding to bf16 is 2^-9 of what is rounded; a mean over 20 steps of a curve that noise has moved by some
/// steps' worth differs by no more than a few times that, here 2 per cent. Without master weights the small
/// steps of the end are lost.
TEST(MixedPrecision, TheLossCurveOf300StepsFollowsThatOfFp32) {
  const int steps = 300, window = 20;
  const auto narrow = learning_curve<bfloat16>(steps), wide = learning_curve<float>(steps);
  EXPECT_NE(narrow, wide);
  EXPECT_LT(wide.back(), 0.5 * wide.front());
  for (int first = 0; first + window <= steps; first += window) {
    const auto mean = [&](const std::vector<double>& losses) {
      return std::accumulate(losses.begin() + first, losses.begin() + first + window, 0.0) / window;
    };
    EXPECT_NEAR(mean(narrow) / mean(wide), 1, 0.02) << "steps from " << first;
  }
}

/// The formula that is printed before a run, against what Kokkos allocates.
template <class T>
void expect_memory_of_the_formula(config::GradientPrecision gradients) {
  MemoryTracker::install();
  const auto self = comm::Communicator::self();
  for (const auto family : {Family::llama, Family::qwen2, Family::qwen3, Family::gpt2})
    for (const auto optimizer : {config::OptimizerKind::sgd, config::OptimizerKind::adamw}) {
      auto config = packed_config(3, 2, family);
      config.model.layers = 4;
      config.model.hidden = 96;
      config.model.intermediate = 160;
      config.model.head_dim = 32;
      config.model.vocabulary = 400;
      config.train.sequence_length = 60;
      config.train.optimizer = optimizer;
      config.train.gradient_precision = gradients;
      const auto predicted = train::Trainer<T>::predict_memory(config, plan_of(config, 1), 0);
      const auto tokens = packed_tokens(config.model.vocabulary);
      MemoryTracker::reset_peak();
      const auto before = MemoryTracker::current();
      Training<T> training(self, config, tokens);
      training.trainer.step();
      const auto after_one = MemoryTracker::current();
      training.trainer.step();
      EXPECT_EQ(MemoryTracker::current(), after_one);  // no growth
      const double measured = double(MemoryTracker::peak() - before);
      EXPECT_NEAR(measured / double(predicted.total()), 1, 0.1) << to_string(family);
    }
}
TEST(MemoryPrediction, IsWithinTenPercent) {
  expect_memory_of_the_formula<float>(config::GradientPrecision::model);
  expect_memory_of_the_formula<bfloat16>(config::GradientPrecision::model);
  expect_memory_of_the_formula<bfloat16>(config::GradientPrecision::fp32);
}

}  // namespace
}  // namespace minisp::test
