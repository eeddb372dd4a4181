// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/random.hpp"
#include "math/sum_of_squares.hpp"
#include "train/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace minisp::train {
namespace {

using Values = std::vector<double>;

Values random_values(Index n, std::uint64_t stream, double scale) {
  Values v;
  for (Index i = 0; i < n; ++i)
    v.push_back(scale * math::random_normal(5, stream, static_cast<std::uint64_t>(i)));
  return v;
}

template <class T>
Vector<T> view_of(const Values& values) {
  Vector<T> view("test", static_cast<Index>(values.size()));
  const auto host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < values.size(); ++i) host(i) = static_cast<T>(values[i]);
  Kokkos::deep_copy(view, host);
  return view;
}

template <class T>
Values values_of(const Vector<T>& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return Values(host.data(), host.data() + host.size());
}

/// torch.optim.AdamW and torch.optim.SGD in the order of their documentation, one element at a time.
struct ScalarOptimizer {
  config::TrainConfig train;
  Values m, v;
  int t = 0;

  void step(Values& w, const Values& g, double factor, double rate) {
    m.resize(w.size());
    v.resize(w.size());
    ++t;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double gradient = factor * g[i];
      if (train.optimizer == config::OptimizerKind::sgd) {
        w[i] -= rate * gradient;
        continue;
      }
      w[i] -= rate * train.weight_decay * w[i];
      m[i] = train.beta1 * m[i] + (1 - train.beta1) * gradient;
      v[i] = train.beta2 * v[i] + (1 - train.beta2) * gradient * gradient;
      const double m_hat = m[i] / (1 - std::pow(train.beta1, t));
      const double v_hat = v[i] / (1 - std::pow(train.beta2, t));
      w[i] -= rate * m_hat / (std::sqrt(v_hat) + train.epsilon);
    }
  }
};

double largest_difference(const Values& a, const Values& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

config::TrainConfig train_of(config::OptimizerKind kind) {
  config::TrainConfig train;
  train.optimizer = kind;
  return train;
}

/// Several steps with changing gradients, factors and rates; sizes around the blocks that a team updates.
template <class T>
void expect_torch(config::OptimizerKind kind, double tolerance) {
  for (const Index n : {Index(1), Index(4095), Index(4096), Index(9001)}) {
    ScalarOptimizer expected{train_of(kind), {}, {}};
    Optimizer<T> optimizer(expected.train, n);
    Values reference = random_values(n, 1, 1.0);
    const auto weights = view_of<T>(reference);
    reference = values_of(weights);  // rounded alike
    for (std::uint64_t step = 0; step < 6; ++step) {
      // Gradients from 1e-6 to 1: epsilon counts for the smallest.
      const auto gradients = view_of<T>(random_values(n, 2 + step, std::pow(10.0, -double(step))));
      const double factor = step % 2 == 0 ? 1.0 : 0.25, rate = 1e-2 / double(step + 1);
      optimizer.begin_step(factor, rate);
      // In two parts, as shards are updated.
      const Index half = n / 2;
      for (const auto& part : {std::pair(Index(0), half), std::pair(half, n)})
        optimizer.template update<T>(Exec(), Kokkos::subview(weights, part), Kokkos::subview(weights, part),
                                     Kokkos::subview(gradients, part), part.first);
      expected.step(reference, values_of(gradients), factor, rate);
    }
    EXPECT_LT(largest_difference(values_of(weights), reference), tolerance) << n << " elements";
  }
}

// Weights are about 1, so that six steps round off some units of 2.2e-16 (fp64) or 1.2e-7 (fp32).
TEST(Optimizer, AdamwIsTorchs) {
  expect_torch<double>(config::OptimizerKind::adamw, 1e-14);
  expect_torch<float>(config::OptimizerKind::adamw, 2e-6);
}

TEST(Optimizer, SgdIsTorchs) {
  expect_torch<double>(config::OptimizerKind::sgd, 1e-14);
  expect_torch<float>(config::OptimizerKind::sgd, 2e-6);
}

TEST(Optimizer, AdamwWithoutGradientOnlyDecays) {
  auto train = train_of(config::OptimizerKind::adamw);
  Optimizer<double> optimizer(train, 3);
  const auto weights = view_of<double>({1, -2, 0});
  optimizer.begin_step(1, 0.5);
  optimizer.update<double>(Exec(), weights, weights, view_of<double>({0, 0, 0}), 0);
  EXPECT_EQ(values_of(weights), (Values{1 - 0.5 * 0.1, -2 * (1 - 0.5 * 0.1), 0}));
}

// Steps of 1e-4 are below half a unit of bf16 at 1 (2^-8): weights that took them themselves would stay where
// they are.
TEST(Optimizer, MasterWeightsKeepWhatRoundingDrops) {
  for (const bool wide : {false, true}) {
    Optimizer<bfloat16> optimizer(train_of(config::OptimizerKind::sgd), 3);
    const auto master = view_of<float>({1, -1, 0});
    const auto weights = view_of<bfloat16>({1, -1, 0});
    for (int step = 0; step < 100; ++step) {
      optimizer.begin_step(1, 1e-4);
      if (wide)
        optimizer.update<float>(Exec(), master, weights, view_of<float>({1, 1, 1}), 0);
      else
        optimizer.update<bfloat16>(Exec(), master, weights, view_of<bfloat16>({1, 1, 1}), 0);
    }
    const auto kept = values_of(master), rounded = values_of(weights);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(kept[i], (Values{0.99, -1.01, -0.01})[i], 1e-5);
      EXPECT_EQ(rounded[i], static_cast<double>(bfloat16(kept[i])));
    }
  }
}

TEST(ClipFactor, IsTorchs) {
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(0, 1), 1);
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 1 / (4 + 1e-6));
  EXPECT_LT(clip_factor(1, 1), 1);         // 1 / (1 + 1e-6), as torch has it
  EXPECT_EQ(clip_factor(1 - 2e-6, 1), 1);  // clip / (norm + 1e-6) > 1
  EXPECT_EQ(clip_factor(1e300, 0), 1);     // off
  EXPECT_EQ(clip_factor(std::numeric_limits<double>::infinity(), 1), 0);
}

TEST(GlobalNorm, KnownValues) {
  const auto norm = [](const Values& values) {
    const auto view = view_of<double>(values);
    const Vector<double> sums("sums", math::partial_sums(static_cast<Index>(values.size())));
    return std::sqrt(math::sum_of_squares<double>(Exec(), view, sums));
  };
  EXPECT_EQ(norm({3, -4}), 5);
  EXPECT_EQ(norm({0}), 0);
  // Every element counts once, at every size around the lanes and blocks of the sum: all terms are exact.
  for (const std::size_t n : {1, 15, 16, 17, 8191, 8192, 8193, 24577})
    EXPECT_EQ(norm(Values(n, 1.0)), std::sqrt(double(n))) << n;
  Values one_nan(9000, 1.0);
  one_nan[8999] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(norm(one_nan)));
}

TEST(GlobalNorm, OfFloatsIsSummedInDouble) {
  // 2^24 + 1 is no float: a sum in float would stay at 2^24.
  Values values(1 + 256, 1.0 / 16);
  values[0] = 4096;
  const Vector<double> sums("sums", math::partial_sums(static_cast<Index>(values.size())));
  EXPECT_EQ(std::sqrt(math::sum_of_squares<float>(Exec(), view_of<float>(values), sums)),
            std::sqrt(4096.0 * 4096 + 1));
}

TEST(LearningRate, WarmsUpLinearlyAndDecaysWithACosine) {
  config::TrainConfig train;
  train.learning_rate = 0.4;
  EXPECT_EQ(learning_rate(train, 0), 0.4);
  EXPECT_EQ(learning_rate(train, 1000000), 0.4);  // constant without decay

  train.learning_rate_warmup = 4;
  EXPECT_DOUBLE_EQ(learning_rate(train, 0), 0.1);  // the first of four steps, not zero
  EXPECT_DOUBLE_EQ(learning_rate(train, 2), 0.3);
  EXPECT_DOUBLE_EQ(learning_rate(train, 3), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(train, 4), 0.4);

  train.learning_rate_decay = 8;
  train.learning_rate_minimum = 0.04;
  EXPECT_DOUBLE_EQ(learning_rate(train, 3), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(train, 4), 0.4);  // the cosine begins at its top
  EXPECT_DOUBLE_EQ(learning_rate(train, 6), 0.04 + 0.18 * (1 + std::numbers::sqrt2 / 2));
  EXPECT_DOUBLE_EQ(learning_rate(train, 8), 0.22);   // half way
  EXPECT_DOUBLE_EQ(learning_rate(train, 12), 0.04);  // the floor, and it stays there
  EXPECT_DOUBLE_EQ(learning_rate(train, 13), 0.04);
  EXPECT_DOUBLE_EQ(learning_rate(train, 1000), 0.04);
}

}  // namespace
}  // namespace minisp::train
