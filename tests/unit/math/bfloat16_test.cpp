// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/bfloat16.hpp"

#include "math/simd_storage.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace minisp {
namespace {

bfloat16 of_bits(unsigned bits) {
  bfloat16 x;
  x.bits = static_cast<std::uint16_t>(bits);
  return x;
}

TEST(Bfloat16, EveryNumberIsItsOwnRounding) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float x = static_cast<float>(of_bits(bits));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(x), bits << 16);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(x))));
    } else {
      EXPECT_EQ(bfloat16(x).bits, bits);
    }
  }
}

// Between two neighbours: the nearer one, and in the middle the even one.
TEST(Bfloat16, RoundsToNearestEven) {
  for (unsigned bits = 0; bits < 0x7f80; ++bits)
    for (const unsigned sign : {0u, 0x8000u}) {
      const std::uint32_t low = (bits | sign) << 16;
      const auto rounded = [](std::uint32_t word) {
        return unsigned(bfloat16(std::bit_cast<float>(word)).bits);
      };
      const unsigned here = bits | sign, next = here + 1;  // next to the largest one is infinity
      ASSERT_EQ(rounded(low + 1), here);
      ASSERT_EQ(rounded(low + 0x7fff), here);
      ASSERT_EQ(rounded(low + 0x8000), bits % 2 == 0 ? here : next);
      ASSERT_EQ(rounded(low + 0x8001), next);
      ASSERT_EQ(rounded(low + 0xffff), next);
    }
}

// A NaN whose payload sits in the lower half alone must not become infinity.
TEST(Bfloat16, NaNStaysNaN) {
  for (const std::uint32_t word : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu})
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(word)))));
}

TEST(Bfloat16, VectorsAgreeWithNumbers) {
  constexpr std::size_t width = math::Simd<float>::size();
  std::vector<float> numbers;
  for (unsigned i = 0; i < 64 * width; ++i)
    numbers.push_back(std::ldexp(1.0f + 0.001f * float(i), int(i % 60) - 30));
  for (std::size_t i = 0; i < numbers.size(); i += width) {
    bfloat16 stored[width];
    math::store_vector(math::Simd<float>(&numbers[i], math::simd::element_aligned), stored);
    const auto loaded = math::load_vector<bfloat16>(stored);
    for (std::size_t lane = 0; lane < width; ++lane) {
      EXPECT_EQ(stored[lane].bits, bfloat16(numbers[i + lane]).bits);
      EXPECT_EQ(loaded[lane], static_cast<float>(stored[lane]));
    }
  }
}

}  // namespace
}  // namespace minisp
