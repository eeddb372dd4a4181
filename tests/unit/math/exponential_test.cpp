// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/exponential.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace minisp::math {
namespace {

/// Distance in units in the last place of the correctly rounded result.
template <class T>
double ulps(T found, long double exact) {
  const T nearest = static_cast<T>(exact);
  const T ulp = std::nextafter(std::abs(nearest), std::numeric_limits<T>::infinity()) - std::abs(nearest);
  return static_cast<double>(std::abs(static_cast<long double>(found) - exact) / ulp);
}

/// The largest error of f on n + 1 equally spaced points.
template <class T, class F, class Exact>
double worst(T low, T high, int n, const F& f, const Exact& exact) {
  double largest = 0;
  for (int i = 0; i <= n; ++i) {
    const T x = static_cast<T>(low + (high - low) * (static_cast<T>(i) / static_cast<T>(n)));
    largest = std::max(largest, ulps(f(x), exact(static_cast<long double>(x))));
  }
  return largest;
}

template <class T>
struct ExponentialTest : testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ExponentialTest, Types);

TYPED_TEST(ExponentialTest, ErrorIsAsDocumented) {
  using T = TypeParam;
  const T low = std::is_same_v<T, float> ? T(-87.3) : T(-708.3),
          high = std::is_same_v<T, float> ? T(88.3) : T(709.4);
  const auto found = [](T x) { return exponential(x); };
  const auto exact = [](long double x) { return std::exp(x); };
  EXPECT_LT(worst<T>(low, high, 500000, found, exact), 1.1);
  EXPECT_LT(worst<T>(-1, 1, 500000, found, exact), 1.1);
  EXPECT_EQ(exponential(T(0)), T(1));
}

TYPED_TEST(ExponentialTest, SigmoidErrorIsAsDocumented) {
  using T = TypeParam;
  const auto found = [](T x) { return sigmoid(x); };
  const auto exact = [](long double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LT(worst<T>(-80, 80, 500000, found, exact), 2.5);
  EXPECT_LT(worst<T>(-2, 2, 500000, found, exact), 2.5);
}

TYPED_TEST(ExponentialTest, Exp2ErrorIsAsDocumented) {
  using T = TypeParam;
  const double bound = std::is_same_v<T, float> ? 2.1 : 1.2;
  const T low = std::numeric_limits<T>::min_exponent, high = std::numeric_limits<T>::max_exponent;
  const auto found = [](T x) { return exp2(x); };
  const auto exact = [](long double x) { return std::exp2(x); };
  EXPECT_LT(worst<T>(low, high - T(0.01), 500000, found, exact), bound);
  EXPECT_LT(worst<T>(-1, 1, 500000, found, exact), bound);
  for (int n = std::numeric_limits<T>::min_exponent; n < std::numeric_limits<T>::max_exponent; ++n)
    EXPECT_EQ(exp2(static_cast<T>(n)), std::ldexp(T(1), n));
}

TYPED_TEST(ExponentialTest, OverOnePlusExp2ErrorIsAsDocumented) {
  using T = TypeParam;
  const auto found = [](T x) { return over_one_plus_exp2(x); };
  const auto exact = [](long double x) { return 1 / (1 + std::exp2(x)); };
  const double bound = std::is_same_v<T, float> ? 3.5 : 2.5;
  EXPECT_LT(worst<T>(-120, 120, 500000, found, exact), bound);
  EXPECT_LT(worst<T>(-2, 2, 500000, found, exact), bound);
}

TYPED_TEST(ExponentialTest, LimitsOfPowersOfTwo) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T lowest = std::numeric_limits<T>::min_exponent;
  for (const T x : {-infinity, -std::numeric_limits<T>::max(), T(-1e4), std::nextafter(lowest, -infinity)}) {
    EXPECT_EQ(exp2(x), 0) << x;
    EXPECT_EQ(over_one_plus_exp2(x), 1) << x;
  }
  for (const T x : {infinity, std::numeric_limits<T>::max(), T(1e4), std::nextafter(1 - lowest, infinity)})
    EXPECT_EQ(over_one_plus_exp2(x), 0) << x;
  EXPECT_GT(over_one_plus_exp2(1 - lowest), 0);
  EXPECT_EQ(over_one_plus_exp2(T(0)), T(0.5));
  EXPECT_TRUE(std::isnan(exp2(nan)));
  EXPECT_TRUE(std::isnan(over_one_plus_exp2(nan)));
}

TYPED_TEST(ExponentialTest, Limits) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity();
  EXPECT_EQ(exponential(-infinity), 0);
  EXPECT_EQ(exponential(T(-1e4)), 0);
  EXPECT_EQ(exponential(-std::numeric_limits<T>::max()), 0);
  EXPECT_EQ(exponential(infinity), infinity);
  EXPECT_EQ(exponential(T(1e4)), infinity);
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<T>::quiet_NaN())));
  EXPECT_EQ(sigmoid(-infinity), 0);
  EXPECT_EQ(sigmoid(infinity), 1);
  EXPECT_EQ(sigmoid(T(0)), T(0.5));
  // Nothing wraps round at either end.
  const T edge = std::log(std::numeric_limits<T>::min());
  EXPECT_LE(exponential(std::nextafter(edge, T(-1e9))), 2 * std::numeric_limits<T>::min());
  for (int i = 0; i < 1000; ++i) {
    const T x = static_cast<T>(-edge * T(0.99) + i * T(0.01));
    EXPECT_GT(exponential(x), T(1e37)) << x;
  }
}

}  // namespace
}  // namespace minisp::math
