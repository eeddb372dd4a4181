// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/mlp.hpp"

#include "layer_support.hpp"

namespace minisp::model {
namespace {

using namespace test;

constexpr Index rows = 5, n = 41;

template <class T>
struct MlpTest : testing::Test {};
using Types = testing::Types<bfloat16, float, double>;
TYPED_TEST_SUITE(MlpTest, Types);

/// Inputs from the linear part of the activation to where it saturates.
Values wide_values(Index count, std::uint64_t stream) {
  auto v = random_values(count, stream);
  for (std::size_t i = 0; i < v.size(); i += 3) v[i] *= 6;
  return v;
}

Values naive_swiglu(const Values& gate_up) {
  Values act;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < n; ++c) {
      const double g = gate_up[r * 2 * n + c], u = gate_up[r * 2 * n + n + c];
      act.push_back(g / (1 + std::exp(-g)) * u);
    }
  return act;
}

Values naive_gelu(const Values& x) {
  Values act;
  for (const double v : x)
    act.push_back(0.5 * v * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v))));
  return act;
}

TYPED_TEST(MlpTest, ForwardAgreesWithTheFormula) {
  using T = TypeParam;
  const auto gate_up = rounded<T>(wide_values(rows * 2 * n, 1)), x = rounded<T>(wide_values(rows * n, 2));
  const auto act = matrix<T>(rows, n, Values(rows * n, nan), 1);
  swiglu_forward<T>(Exec(), matrix<T>(rows, 2 * n, gate_up, 3), act);
  EXPECT_LT(relative_error(values_of(act), naive_swiglu(gate_up)), tolerance<T>);
  gelu_tanh_forward<T>(Exec(), matrix<T>(rows, n, x, 3), act);
  EXPECT_LT(relative_error(values_of(act), naive_gelu(x)), tolerance<T>);
}

TEST(Mlp, GradientsAgreeWithDifferences) {
  const auto gate_up = wide_values(rows * 2 * n, 1), x = wide_values(rows * n, 2),
             dact = random_values(rows * n, 3);
  const auto dgate_up = matrix<double>(rows, 2 * n, nan), dx = matrix<double>(rows, n, nan);
  const auto dact_view = matrix<double>(rows, n, dact), act = matrix<double>(rows, n, nan);
  swiglu_backward<double>(Exec(), matrix<double>(rows, 2 * n, gate_up), dact_view, act, dgate_up);
  EXPECT_LT(
      relative_error(values_of(dgate_up),
                     differentiate(gate_up, [&](const Values& v) { return dot(naive_swiglu(v), dact); })),
      difference_tolerance);
  gelu_tanh_backward<double>(Exec(), matrix<double>(rows, n, x), dact_view, act, dx);
  EXPECT_LT(relative_error(values_of(dx),
                           differentiate(x, [&](const Values& v) { return dot(naive_gelu(v), dact); })),
            difference_tolerance);
}

// The backward pass also makes the forward's output anew: the same bits, apart and in place.
TYPED_TEST(MlpTest, InPlaceGivesTheSameBits) {
  using T = TypeParam;
  const auto gate_up = wide_values(rows * 2 * n, 1), x = wide_values(rows * n, 2),
             dact = random_values(rows * n, 3);
  const auto act = matrix<T>(rows, n, nan), act_again = matrix<T>(rows, n, nan);
  const auto dact_view = matrix<T>(rows, n, dact), dact_in_place = matrix<T>(rows, n, dact);
  const auto apart = matrix<T>(rows, 2 * n, nan), both = matrix<T>(rows, 2 * n, gate_up);
  swiglu_forward<T>(Exec(), both, act);
  swiglu_backward<T>(Exec(), both, dact_view, act_again, apart);
  EXPECT_EQ(values_of(act_again), values_of(act));
  swiglu_backward<T>(Exec(), both, dact_in_place, dact_in_place, both);
  EXPECT_EQ(values_of(both), values_of(apart));
  EXPECT_EQ(values_of(dact_in_place), values_of(act));

  const auto expected = matrix<T>(rows, n, nan), in_place = matrix<T>(rows, n, x);
  const auto dact_too = matrix<T>(rows, n, dact);
  gelu_tanh_forward<T>(Exec(), in_place, act);
  gelu_tanh_backward<T>(Exec(), in_place, dact_view, act_again, expected);
  EXPECT_EQ(values_of(act_again), values_of(act));
  gelu_tanh_backward<T>(Exec(), in_place, dact_too, dact_too, in_place);
  EXPECT_EQ(values_of(in_place), values_of(expected));
  EXPECT_EQ(values_of(dact_too), values_of(act));
  const auto forward = matrix<T>(rows, n, x);
  gelu_tanh_forward<T>(Exec(), forward, forward);
  EXPECT_EQ(values_of(forward), values_of(act));
}

// silu(x) -> 0 or x, gelu(x) -> 0 or x, far beyond where exp overflows: no inf * 0.
TYPED_TEST(MlpTest, ExtremeInputsStayFinite) {
  using T = TypeParam;
  const Values x = {-1e4, -100, -90, -88, 88, 90, 100, 1e4};
  const Index count = static_cast<Index>(x.size());
  Values gate_up = x;
  gate_up.insert(gate_up.end(), x.size(), 1.0);
  const auto act = matrix<T>(1, count, nan), dx = matrix<T>(1, count, nan),
             dgate_up = matrix<T>(1, 2 * count, nan);
  const auto ones = matrix<T>(1, count, 1.0), again = matrix<T>(1, count, nan);
  swiglu_forward<T>(Exec(), matrix<T>(1, 2 * count, gate_up), act);
  swiglu_backward<T>(Exec(), matrix<T>(1, 2 * count, gate_up), ones, again, dgate_up);
  gelu_tanh_backward<T>(Exec(), matrix<T>(1, count, x), ones, again, dx);
  const auto found = values_of(act), slopes = values_of(dx), swiglu_slopes = values_of(dgate_up);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(found[i], x[i] > 0 ? stored<T>(x[i]) : 0, 1e-30) << x[i];
    EXPECT_NEAR(slopes[i], x[i] > 0 ? 1 : 0, 1e-30) << x[i];
    EXPECT_NEAR(swiglu_slopes[i], x[i] > 0 ? 1 : 0, 1e-30) << x[i];
  }
}

}  // namespace
}  // namespace minisp::model
