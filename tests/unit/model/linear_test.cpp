// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/linear.hpp"

#include "layer_support.hpp"
#include "math/column_sum.hpp"

namespace minisp::model {
namespace {

using namespace test;

constexpr Index rows = 19, in = 24, out = 7;

template <class T>
struct LinearTest : testing::Test {};
using Types = testing::Types<bfloat16, float, double>;
TYPED_TEST_SUITE(LinearTest, Types);

/// (rows, in) as `blocks` column blocks below each other.
Values to_blocks(const Values& x, Index blocks) {
  const Index width = in / blocks;
  Values v;
  for (Index b = 0; b < blocks; ++b)
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < width; ++c) v.push_back(x[static_cast<std::size_t>(r * in + b * width + c)]);
  return v;
}

/// c(i, j) = sum_k a(i, k) b(k, j) with elements fetched by functions.
template <class FetchA, class FetchB>
Values product(Index m, Index n, Index k, const FetchA& a, const FetchB& b) {
  Values c;
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      double sum = 0;
      for (Index l = 0; l < k; ++l) sum += a(i, l) * b(l, j);
      c.push_back(sum);
    }
  return c;
}

struct Case {
  Values x, weight, bias, dy;
  double X(Index r, Index c) const { return x[static_cast<std::size_t>(r * in + c)]; }
  double W(Index o, Index c) const { return weight[static_cast<std::size_t>(o * in + c)]; }
  double DY(Index r, Index o) const { return dy[static_cast<std::size_t>(r * out + o)]; }

  Values y() const {
    auto v = product(
        rows, out, in, [&](Index r, Index k) { return X(r, k); }, [&](Index k, Index o) { return W(o, k); });
    for (Index i = 0; i < rows * out; ++i)
      v[static_cast<std::size_t>(i)] += bias[static_cast<std::size_t>(i % out)];
    return v;
  }
  Values dx() const {
    return product(
        rows, in, out, [&](Index r, Index o) { return DY(r, o); }, [&](Index o, Index c) { return W(o, c); });
  }
  Values dweight() const {
    return product(
        out, in, rows, [&](Index o, Index r) { return DY(r, o); }, [&](Index r, Index c) { return X(r, c); });
  }
};
template <class T>
Case make_case() {
  return {rounded<T>(random_values(rows * in, 1)), rounded<T>(random_values(out * in, 2)),
          rounded<T>(random_values(out, 3)), rounded<T>(random_values(rows * out, 4))};
}

Values plus(Values v, double shift) {
  for (double& x : v) x += shift;
  return v;
}

TYPED_TEST(LinearTest, EveryLayoutAndModeAgreesWithTheFormula) {
  using T = TypeParam;
  const auto c = make_case<T>();
  const auto weight = matrix<T>(out, in, c.weight), dy = matrix<T>(rows, out, c.dy);
  const auto bias = vector<T>(c.bias);
  for (const Index blocks : {1, 2, 4, 8})
    for (const auto mode : {Accumulation::overwrite, Accumulation::add}) {
      const bool add = mode == Accumulation::add;
      const double before = add ? 0.5 : nan, shift = add ? 0.5 : 0;
      const auto x = matrix<T>(blocks * rows, in / blocks, to_blocks(c.x, blocks));
      const auto y = matrix<T>(rows, out, before), dx = matrix<T>(blocks * rows, in / blocks, before);
      const auto dweight = matrix<Accumulate<T>>(out, in, before),
                 wide = matrix<Accumulate<T>>(rows, out, nan);
      linear_forward<T>(Exec(), x, weight, bias, mode, y, wide);
      linear_backward_input<T>(Exec(), dy, weight, mode, dx);
      linear_backward_weight<T>(Exec(), dy, x, mode, dweight);
      EXPECT_LT(relative_error(values_of(y), plus(c.y(), shift)), tolerance<T>);
      EXPECT_LT(relative_error(values_of(dx), plus(to_blocks(c.dx(), blocks), shift)), tolerance<T>);
      EXPECT_LT(relative_error(values_of(dweight), plus(c.dweight(), shift)), tolerance<T>);
    }
}

// Small whole numbers: every sum is exact before it is rounded to T, so column blocks must give the bits of
// the plain matrix, which they do not where each block's sum is rounded.
TYPED_TEST(LinearTest, ColumnBlocksAreRoundedOnce) {
  using T = TypeParam;
  auto c = make_case<T>();
  for (auto* values : {&c.x, &c.weight, &c.bias})
    for (double& v : *values) v = std::round(5 * v);
  const auto y_of = [&](Index blocks) {
    const auto y = matrix<T>(rows, out, nan);
    linear_forward<T>(Exec(), matrix<T>(blocks * rows, in / blocks, to_blocks(c.x, blocks)),
                      matrix<T>(out, in, c.weight), vector<T>(c.bias), Accumulation::overwrite, y,
                      matrix<Accumulate<T>>(rows, out, nan));
    return values_of(y);
  };
  for (const Index blocks : {2, 4, 8}) EXPECT_EQ(y_of(blocks), y_of(1)) << blocks;
}

TYPED_TEST(LinearTest, WithoutBias) {
  using T = TypeParam;
  auto c = make_case<T>();
  c.bias.assign(out, 0.0);
  for (const Index blocks : {1, 4}) {
    const auto y = matrix<T>(rows, out, nan);
    linear_forward<T>(Exec(), matrix<T>(blocks * rows, in / blocks, to_blocks(c.x, blocks)),
                      matrix<T>(out, in, c.weight), {}, Accumulation::overwrite, y,
                      matrix<Accumulate<T>>(rows, out, nan));
    EXPECT_LT(relative_error(values_of(y), c.y()), tolerance<T>);
  }
}

TYPED_TEST(LinearTest, BiasGradientAccumulates) {
  using T = TypeParam;
  const auto c = make_case<T>();
  Values expected(out, 2.0);
  for (Index r = 0; r < rows; ++r)
    for (Index o = 0; o < out; ++o) expected[static_cast<std::size_t>(o)] += c.DY(r, o);
  const auto dbias = vector<Accumulate<T>>(Values(out, 2.0));
  const auto workspace =
      vector<Accumulate<T>>(Values(static_cast<std::size_t>(math::column_sum_workspace(rows, out)), nan));
  linear_backward_bias<T>(Exec(), matrix<T>(rows, out, c.dy, 3), workspace, dbias);
  EXPECT_LT(relative_error(values_of(dbias), expected), tolerance<T>);
}

TEST(Linear, GradientsAgreeWithDifferences) {
  const auto c = make_case<double>();
  const auto loss = [&](const Values& x, const Values& weight, const Values& bias) {
    return dot(Case{x, weight, bias, c.dy}.y(), c.dy);
  };
  EXPECT_LT(
      relative_error(c.dx(), differentiate(c.x, [&](const Values& x) { return loss(x, c.weight, c.bias); })),
      difference_tolerance);
  EXPECT_LT(relative_error(c.dweight(),
                           differentiate(c.weight, [&](const Values& w) { return loss(c.x, w, c.bias); })),
            difference_tolerance);
}

TEST(Linear, RefusesShapesThatDoNotFit) {
  const auto weight = matrix<double>(out, in, 1.0), y = matrix<double>(rows, out, 0.0);
  const auto forward = [&](Index x_rows, Index x_columns) {
    linear_forward<double>(Exec(), matrix<double>(x_rows, x_columns, 1.0), weight, {},
                           Accumulation::overwrite, y);
  };
  EXPECT_THROW(forward(rows, in - 1), std::invalid_argument);
  EXPECT_THROW(forward(rows, in / 2), std::invalid_argument);
  EXPECT_THROW(forward(2 * rows, in), std::invalid_argument);
  EXPECT_NO_THROW(forward(2 * rows, in / 2));
}

}  // namespace
}  // namespace minisp::model
