// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/random.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace minisp::math {
namespace {

struct KnownAnswer {
  PhiloxBlock counter;
  std::uint32_t key0, key1;
  PhiloxBlock expected;
};

// The known answers that Random123 (1.09 and later, tests/kat_vectors) publishes for philox4x32-10.
TEST(Philox, KnownAnswers) {
  const KnownAnswer answers[] = {
      {{{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       0xffffffff,
       0xffffffff,
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       0xa4093822,
       0x299f31d0,
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const auto& answer : answers) {
    const PhiloxBlock found = philox4x32_10(answer.counter, answer.key0, answer.key1);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(found.word[i], answer.expected.word[i]);
  }
}

TEST(Random, SeedStreamAndIndexAllMatterInAllTheirBits) {
  const auto base = random_bits(1, 2, 3);
  EXPECT_NE(random_bits(2, 2, 3), base);
  EXPECT_NE(random_bits(1, 3, 3), base);
  EXPECT_NE(random_bits(1, 2, 4), base);
  const std::uint64_t high = std::uint64_t{1} << 40;
  EXPECT_NE(random_bits(1 + high, 2, 3), base);
  EXPECT_NE(random_bits(1, 2 + high, 3), base);
  EXPECT_NE(random_bits(1, 2, 3 + high), base);
  EXPECT_EQ(random_bits(1, 2, 3), base);
}

// Moments of n = 200,000 draws lie within 5 standard deviations of theirs: sqrt(var / n).
constexpr int draws = 200000;

TEST(Random, UniformMoments) {
  double sum = 0, squares = 0, lag = 0, last = 0;
  for (int i = 0; i < draws; ++i) {
    const double u = random_uniform(5, 0, static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
    lag += (u - 0.5) * (last - 0.5);
    last = u;
  }
  EXPECT_NEAR(sum / draws, 0.5, 5 * std::sqrt(1.0 / 12 / draws));
  EXPECT_NEAR(squares / draws, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / draws));
  EXPECT_NEAR(lag / draws, 0, 5.0 / 12 / std::sqrt(draws));
}

TEST(Random, NormalMoments) {
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, across = 0;
  int beyond_two = 0;
  for (int i = 0; i < draws; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const double x = random_normal(5, 0, index);
    ASSERT_TRUE(std::isfinite(x));
    m1 += x;
    m2 += x * x;
    m3 += x * x * x;
    m4 += x * x * x * x;
    across += x * random_normal(5, 1, index);  // streams are independent
    beyond_two += std::abs(x) > 2;
  }
  const double deviation = 5 / std::sqrt(draws);
  EXPECT_NEAR(m1 / draws, 0, deviation);
  EXPECT_NEAR(m2 / draws, 1, std::sqrt(2.0) * deviation);
  EXPECT_NEAR(m3 / draws, 0, std::sqrt(15.0) * deviation);
  EXPECT_NEAR(m4 / draws, 3, std::sqrt(96.0) * deviation);
  EXPECT_NEAR(across / draws, 0, deviation);
  const double tail = std::erfc(std::sqrt(2.0));
  EXPECT_NEAR(static_cast<double>(beyond_two) / draws, tail, std::sqrt(tail) * deviation);
}

}  // namespace
}  // namespace minisp::math
