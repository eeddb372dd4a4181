// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/cross_entropy.hpp"

#include "layer_support.hpp"

#include <algorithm>

namespace minisp::model {
namespace {

using namespace test;

constexpr Index rows = 13, hidden = 9;
constexpr int vocabulary = 77;
constexpr double loss_scale = 1.0 / 11;

struct Case {
  Values hidden, weight;
  std::vector<int> labels;
};
template <class T>
Case make_case() {
  Case c{rounded<T>(random_values(rows * hidden, 1)), rounded<T>(random_values(vocabulary * hidden, 2)),
         random_integers(rows, vocabulary, 3)};
  c.labels[0] = c.labels[7] = -100;
  c.labels[12] = -1;
  return c;
}

/// Loss of every row, from the definition with the largest logit taken out.
Values naive_losses(const Values& h, const Values& weight, const std::vector<int>& labels) {
  Values losses;
  for (std::size_t r = 0; r < rows; ++r) {
    Values logits;
    for (std::size_t v = 0; v < vocabulary; ++v) {
      double sum = 0;
      for (std::size_t k = 0; k < hidden; ++k) sum += h[r * hidden + k] * weight[v * hidden + k];
      logits.push_back(sum);
    }
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double l : logits) sum += std::exp(l - largest);
    losses.push_back(labels[r] < 0 ? 0
                                   : largest + std::log(sum) - logits[static_cast<std::size_t>(labels[r])]);
  }
  return losses;
}
double naive_loss(const Values& h, const Values& weight, const std::vector<int>& labels) {
  double sum = 0;
  for (const double l : naive_losses(h, weight, labels)) sum += l;
  return sum * loss_scale;
}

struct Result {
  Values losses, dhidden, dweight;
};
template <class T>
Result run(const Case& c, Index chunk, double dweight_before = 0) {
  const auto h = matrix<T>(rows, hidden, c.hidden), weight = matrix<T>(vocabulary, hidden, c.weight);
  using A = Accumulate<T>;
  const LogitTile<T> tile(chunk, vocabulary);
  const auto dhidden = matrix<T>(rows, hidden, nan);
  const auto dweight = matrix<A>(vocabulary, hidden, dweight_before);
  const auto losses = vector<A>(Values(rows, nan)), forward_losses = vector<A>(Values(rows, nan));
  cross_entropy_forward_backward<T>(Exec(), h, weight, vector<int>(c.labels), loss_scale, tile, dhidden,
                                    dweight, losses);
  cross_entropy_forward<T>(Exec(), h, weight, vector<int>(c.labels), tile, forward_losses);
  EXPECT_EQ(values_of(forward_losses), values_of(losses));
  return {values_of(losses), values_of(dhidden), values_of(dweight)};
}

template <class T>
struct CrossEntropyTest : testing::Test {};
using Types = testing::Types<bfloat16, float, double>;
TYPED_TEST_SUITE(CrossEntropyTest, Types);

TYPED_TEST(CrossEntropyTest, LossesAgreeWithTheDefinitionForEveryChunk) {
  using T = TypeParam;
  const auto c = make_case<T>();
  const auto expected = naive_losses(c.hidden, c.weight, c.labels);
  const auto exact = run<double>(c, rows);
  for (const Index chunk : {1, 2, 5, 13, 40}) {
    const auto found = run<T>(c, chunk, 2.0);
    EXPECT_LT(relative_error(found.losses, expected), tolerance<T>);
    EXPECT_LT(relative_error(found.dhidden, exact.dhidden), tolerance<T>);
    auto dweight = found.dweight;
    for (double& v : dweight) v -= 2.0;
    // The sum is taken at 2, whose rounding is large beside gradients of some hundredths.
    EXPECT_LT(norm(difference(dweight, exact.dweight)), tolerance<T> * 2.0 * std::sqrt(dweight.size()));
    EXPECT_EQ(found.losses[0], 0);
    EXPECT_EQ(found.losses[12], 0);
  }
}

TEST(CrossEntropy, GradientsAgreeWithDifferences) {
  const auto c = make_case<double>();
  const auto found = run<double>(c, 4);
  EXPECT_LT(relative_error(
                found.dhidden,
                differentiate(c.hidden, [&](const Values& h) { return naive_loss(h, c.weight, c.labels); })),
            difference_tolerance);
  EXPECT_LT(relative_error(
                found.dweight,
                differentiate(c.weight, [&](const Values& w) { return naive_loss(c.hidden, w, c.labels); })),
            difference_tolerance);
}

TYPED_TEST(CrossEntropyTest, WholeChunkWithoutLabelsGivesZeros) {
  using T = TypeParam;
  auto c = make_case<T>();
  std::fill(c.labels.begin(), c.labels.end(), -100);
  const auto found = run<T>(c, 5);
  EXPECT_EQ(norm(found.losses), 0);
  EXPECT_EQ(norm(found.dhidden), 0);
  EXPECT_EQ(norm(found.dweight), 0);
}

// Logits of +-8192 that follow from hidden = (1, 0, ...) and weights (+-8192, 0, ...): the loss is 0 where
// the label has the only largest logit, log 2 where it shares it, and 16384 where it has the smallest.
TYPED_TEST(CrossEntropyTest, ExtremeLogits) {
  using T = TypeParam;
  Case c{Values(rows * hidden, 0.0), Values(vocabulary * hidden, 0.0), std::vector<int>(rows, -100)};
  for (std::size_t r = 0; r < rows; ++r) c.hidden[r * hidden] = 1;
  for (std::size_t v = 0; v < vocabulary; ++v) c.weight[v * hidden] = -8192;
  c.weight[5 * hidden] = 8192;
  c.labels[1] = 5;
  c.labels[2] = 6;
  const auto one = run<T>(c, 4);
  EXPECT_EQ(one.losses[1], 0);
  EXPECT_EQ(one.losses[2], 16384);
  EXPECT_TRUE(std::isfinite(norm(one.dhidden)) && std::isfinite(norm(one.dweight)));
  c.weight[70 * hidden] = 8192;
  EXPECT_NEAR(run<T>(c, 4).losses[1], std::log(2.0), tolerance<T>);
}

// A row as long as the largest vocabularies: equal logits make the loss log(V), and rounding of a sum of
// 150,000 terms in fp32 must not show beyond some units in the last place.
TEST(CrossEntropy, LongRowsAreSummedAccurately) {
  constexpr int large = 151936;
  Values weight;
  for (int v = 0; v < large; ++v) weight.push_back(v % 2 ? 0.5 : -0.25);
  const auto losses = vector<float>(Values(1, nan));
  cross_entropy_forward<float>(Exec(), matrix<float>(1, 1, 1.0), matrix<float>(large, 1, weight),
                               vector<int>(std::vector<int>{1}), LogitTile<float>(1, large), losses);
  const double expected = std::log(large / 2 * (1 + std::exp(-0.75)));
  EXPECT_NEAR(values_of(losses)[0], expected, 2e-7 * expected);
}

TEST(CrossEntropy, SumOfLossesIsInDouble) {
  Values values(1000, 1.0);
  values[0] = 16777216;  // 2^24: adding 1 to it in float changes nothing
  EXPECT_EQ(sum_losses<float>(Exec(), vector<float>(values)), 16777216 + 999);
}

}  // namespace
}  // namespace minisp::model
