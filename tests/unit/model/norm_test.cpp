// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "layer_support.hpp"
#include "math/column_sum.hpp"
#include "model/layer_norm.hpp"
#include "model/rms_norm.hpp"

namespace minisp::model {
namespace {

using namespace test;

// 37 rows: two whole blocks of partial sums and a short one. 67 columns: two groups of lanes and a remainder.
constexpr Index rows = 37, columns = 67;
constexpr double epsilon = 1e-5;

template <class T>
struct NormTest : testing::Test {};
using Types = testing::Types<bfloat16, float, double>;
TYPED_TEST_SUITE(NormTest, Types);

/// Row by row in double: (x - center) * inverse * weight + bias, with and without centring.
struct NaiveNorm {
  Values out, center, inverse;

  NaiveNorm(const Values& x, const Values& weight, const Values* bias)
      : out(x.size()), center(rows, 0.0), inverse(rows) {
    for (std::size_t r = 0; r < rows; ++r) {
      const double* row = &x[r * columns];
      if (bias)
        for (int c = 0; c < columns; ++c) center[r] += row[c] / columns;
      double squares = 0;
      for (int c = 0; c < columns; ++c) squares += (row[c] - center[r]) * (row[c] - center[r]);
      inverse[r] = 1 / std::sqrt(squares / columns + epsilon);
      for (int c = 0; c < columns; ++c)
        out[r * columns + static_cast<std::size_t>(c)] =
            (row[c] - center[r]) * inverse[r] * weight[static_cast<std::size_t>(c)] +
            (bias ? (*bias)[static_cast<std::size_t>(c)] : 0);
    }
  }
};

struct Inputs {
  Values x, weight, bias, dout;

  template <class T>
  static Inputs make() {
    return {rounded<T>(random_values(rows * columns, 1)), rounded<T>(random_values(columns, 2)),
            rounded<T>(random_values(columns, 3)), rounded<T>(random_values(rows * columns, 4))};
  }
};

TYPED_TEST(NormTest, RmsForwardAndRecompute) {
  using T = TypeParam;
  const auto in = Inputs::make<T>();
  const NaiveNorm expected(in.x, in.weight, nullptr);
  const auto x = matrix<T>(rows, columns, in.x, 5),
             out = matrix<T>(rows, columns, Values(in.x.size(), nan), 3);
  const auto weight = vector<T>(in.weight);
  const auto inverse = vector<Accumulate<T>>(Values(rows, nan));
  rms_norm_forward<T>(Exec(), x, weight, epsilon, out, inverse);
  EXPECT_LT(relative_error(values_of(out), expected.out), tolerance<T>);
  EXPECT_LT(relative_error(values_of(inverse), expected.inverse), tolerance<T>);

  const auto again = matrix<T>(rows, columns, nan);
  rms_norm_recompute<T>(Exec(), x, weight, inverse, again);
  EXPECT_EQ(values_of(again), values_of(out));
}

TYPED_TEST(NormTest, LayerForwardAndRecompute) {
  using T = TypeParam;
  const auto in = Inputs::make<T>();
  const NaiveNorm expected(in.x, in.weight, &in.bias);
  const auto x = matrix<T>(rows, columns, in.x, 5),
             out = matrix<T>(rows, columns, Values(in.x.size(), nan), 3);
  const auto weight = vector<T>(in.weight), bias = vector<T>(in.bias);
  const auto mean = vector<Accumulate<T>>(Values(rows, nan)),
             inverse = vector<Accumulate<T>>(Values(rows, nan));
  layer_norm_forward<T>(Exec(), x, weight, bias, epsilon, out, mean, inverse);
  EXPECT_LT(relative_error(values_of(out), expected.out), tolerance<T>);
  EXPECT_LT(relative_error(values_of(mean), expected.center), tolerance<T>);
  EXPECT_LT(relative_error(values_of(inverse), expected.inverse), tolerance<T>);

  const auto again = matrix<T>(rows, columns, nan);
  layer_norm_recompute<T>(Exec(), x, weight, bias, mean, inverse, again);
  EXPECT_EQ(values_of(again), values_of(out));
}

TYPED_TEST(NormTest, ResidualFormsEqualAdditionThenNorm) {
  using T = TypeParam;
  const auto in = Inputs::make<T>();
  const auto x = matrix<T>(rows, columns, in.x), branch = matrix<T>(rows, columns, in.dout);
  const auto weight = vector<T>(in.weight), bias = vector<T>(in.bias);
  Values added(in.x.size());
  for (std::size_t i = 0; i < added.size(); ++i) added[i] = stored<T>(in.x[i] + in.dout[i]);
  const auto added_view = matrix<T>(rows, columns, added);
  const auto expected = matrix<T>(rows, columns, nan), out = matrix<T>(rows, columns, nan);
  const auto sum = matrix<T>(rows, columns, nan);
  const auto mean = vector<Accumulate<T>>(Values(rows, nan)),
             inverse = vector<Accumulate<T>>(Values(rows, nan));

  rms_norm_forward<T>(Exec(), added_view, weight, epsilon, expected, inverse);
  const auto expected_inverse = values_of(inverse);
  residual_rms_norm_forward<T>(Exec(), x, branch, weight, epsilon, sum, out, inverse);
  EXPECT_EQ(values_of(sum), added);
  EXPECT_EQ(values_of(out), values_of(expected));
  EXPECT_EQ(values_of(inverse), expected_inverse);

  layer_norm_forward<T>(Exec(), added_view, weight, bias, epsilon, expected, mean, inverse);
  const auto expected_mean = values_of(mean);
  // In place: the residual stream itself takes the sum.
  residual_layer_norm_forward<T>(Exec(), x, branch, weight, bias, epsilon, x, out, mean, inverse);
  EXPECT_EQ(values_of(x), added);
  EXPECT_EQ(values_of(out), values_of(expected));
  EXPECT_EQ(values_of(mean), expected_mean);
}

/// dx and the parameter gradients of either norm, all of which must add to what is there when asked to.
template <class T>
struct Gradients {
  Values dx, dweight, dbias;
};
template <class T>
Gradients<T> backward(const Inputs& in, bool layer, Accumulation mode, double dx_before,
                      double parameters_before) {
  const auto x = matrix<T>(rows, columns, in.x, 2), dout = matrix<T>(rows, columns, in.dout, 1);
  const auto out = matrix<T>(rows, columns, nan);
  const auto dx = matrix<T>(rows, columns, Values(in.x.size(), dx_before), 4);
  const auto weight = vector<T>(in.weight), bias = vector<T>(in.bias);
  const auto mean = vector<Accumulate<T>>(Values(rows, nan)),
             inverse = vector<Accumulate<T>>(Values(rows, nan));
  const auto dweight = vector<Accumulate<T>>(Values(columns, parameters_before)),
             dbias = vector<Accumulate<T>>(Values(columns, parameters_before));
  const auto workspace = vector<Accumulate<T>>(
      Values(static_cast<std::size_t>(math::column_sum_workspace(rows, 2 * columns)), nan));
  if (layer) {
    layer_norm_forward<T>(Exec(), x, weight, bias, epsilon, out, mean, inverse);
    layer_norm_backward<T>(Exec(), x, weight, mean, inverse, dout, mode, dx, workspace, dweight, dbias);
  } else {
    rms_norm_forward<T>(Exec(), x, weight, epsilon, out, inverse);
    rms_norm_backward<T>(Exec(), x, weight, inverse, dout, mode, dx, workspace, dweight);
  }
  return {values_of(dx), values_of(dweight), values_of(dbias)};
}

TEST(NormGradient, AgreesWithDifferences) {
  const auto in = Inputs::make<double>();
  for (const bool layer : {false, true}) {
    const auto loss = [&](const Values& x, const Values& weight, const Values& bias) {
      return dot(NaiveNorm(x, weight, layer ? &bias : nullptr).out, in.dout);
    };
    const auto found = backward<double>(in, layer, Accumulation::overwrite, nan, 0);
    EXPECT_LT(
        relative_error(found.dx,
                       differentiate(in.x, [&](const Values& x) { return loss(x, in.weight, in.bias); })),
        difference_tolerance);
    EXPECT_LT(
        relative_error(found.dweight,
                       differentiate(in.weight, [&](const Values& w) { return loss(in.x, w, in.bias); })),
        difference_tolerance);
    if (layer) {
      EXPECT_LT(
          relative_error(found.dbias,
                         differentiate(in.bias, [&](const Values& b) { return loss(in.x, in.weight, b); })),
          difference_tolerance);
    }
  }
}

TYPED_TEST(NormTest, GradientsAccumulate) {
  using T = TypeParam;
  const auto in = Inputs::make<T>();
  for (const bool layer : {false, true}) {
    const auto exact = backward<double>(in, layer, Accumulation::overwrite, nan, 0);
    auto sums = backward<T>(in, layer, Accumulation::add, 2, 3);
    for (double& v : sums.dx) v -= 2;
    for (double& v : sums.dweight) v -= 3;
    for (double& v : sums.dbias) v -= 3;
    EXPECT_LT(relative_error(sums.dx, exact.dx), tolerance<T>);
    EXPECT_LT(relative_error(sums.dweight, exact.dweight), tolerance<T>);
    if (layer) {
      EXPECT_LT(relative_error(sums.dbias, exact.dbias), tolerance<T>);
    }
  }
}

TYPED_TEST(NormTest, RepeatedRunsGiveTheSameBits) {
  using T = TypeParam;
  const auto in = Inputs::make<T>();
  for (const bool layer : {false, true}) {
    const auto first = backward<T>(in, layer, Accumulation::add, 2, 3);
    const auto second = backward<T>(in, layer, Accumulation::add, 2, 3);
    EXPECT_EQ(first.dx, second.dx);
    EXPECT_EQ(first.dweight, second.dweight);
  }
}

TYPED_TEST(NormTest, RowOfZerosIsFinite) {
  using T = TypeParam;
  auto in = Inputs::make<T>();
  std::fill(in.x.begin(), in.x.end(), 0.0);
  for (const bool layer : {false, true}) {
    const auto found = backward<T>(in, layer, Accumulation::overwrite, nan, 0);
    EXPECT_TRUE(std::isfinite(norm(found.dx)));
    EXPECT_EQ(norm(found.dweight), 0);
  }
}

}  // namespace
}  // namespace minisp::model
