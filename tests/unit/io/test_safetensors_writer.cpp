// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/safetensors.hpp"
#include "io/safetensors_writer.hpp"
#include "math/random.hpp"
#include "unit/io/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace minisp::io;
using minisp::test::ScratchFolder;
using minisp::test::write_file;

namespace {

double rounded(double value) {
  return static_cast<double>(float_from_bfloat16(bfloat16_from(value)));
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST(Bfloat16, EveryOneOfThemIsKept) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_bfloat16(static_cast<std::uint16_t>(bits));
    const std::uint16_t back = bfloat16_from(static_cast<double>(value));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(float_from_bfloat16(back))) << bits;
    else
      EXPECT_EQ(back, bits);
  }
}

// The nearest of the two neighbours, the even one where both are as near: by their distances, which double
// holds exactly here.
TEST(Bfloat16, OthersAreRoundedToNearestEvenOnce) {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    double value = minisp::math::random_normal(5, 1, i) * std::ldexp(1.0, static_cast<int>(i % 240) - 120);
    if (i % 3 == 0) value = static_cast<double>(static_cast<float>(value));
    const auto below =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
    const double a = static_cast<double>(float_from_bfloat16(below));
    double expected = a;
    double best = std::abs(value - a);
    for (const int step : {-1, 1}) {  // rounding to float above may have passed a neighbour
      const auto bits = static_cast<std::uint16_t>(below + step);
      const double b = static_cast<double>(float_from_bfloat16(bits));
      const double distance = std::abs(value - b);
      if (distance < best || (distance == best && bits % 2 == 0)) {
        expected = b;
        best = distance;
      }
    }
    EXPECT_EQ(rounded(value), expected) << value;
  }
  EXPECT_EQ(rounded(1 + 0x1p-8), 1);                     // a tie, to the even one
  EXPECT_EQ(rounded(1 + 0x3p-8), 1 + 0x1p-6);            // a tie, to the even one above
  EXPECT_EQ(rounded(1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);  // by way of float it would be the tie
  EXPECT_EQ(rounded(-1 - 0x1p-8 - 0x1p-40), -1 - 0x1p-7);
  EXPECT_EQ(rounded(1 + 0x1p-8 - 0x1p-40), 1);
}

TEST(Bfloat16, EndsOfTheRange) {
  const double largest = 0x1.fep127;
  EXPECT_EQ(rounded(largest), largest);
  EXPECT_EQ(rounded(0x1.fefffffffffffp127), largest);
  EXPECT_TRUE(std::isinf(rounded(0x1.ffp127)));
  EXPECT_TRUE(std::isinf(rounded(1e300)));
  EXPECT_EQ(rounded(-1e300), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(rounded(0x1p-133), 0x1p-133);  // the smallest
  EXPECT_EQ(rounded(0x1p-134), 0);
  EXPECT_EQ(rounded(0x1.8p-134), 0x1p-133);
  EXPECT_EQ(rounded(1e-300), 0);
  EXPECT_TRUE(std::signbit(rounded(-1e-300)));
  EXPECT_EQ(bfloat16_from(-0.0), 0x8000);
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<double>::quiet_NaN())));
}

TEST(SafetensorsWriter, TheReaderFindsEveryNumber) {
  const std::vector<double> values{1, -0.1, 3e-39, 1 + 0x1p-8 + 0x1p-40, 5, -6, 7, 1e300};
  const std::vector<NamedShape> tensors{{"z \"quoted\"", {2, 3}}, {"a", {2}}, {"empty", {0, 5}}};
  for (const auto type : {StoredType::float64, StoredType::float32, StoredType::bfloat16}) {
    const auto layout = lay_out(tensors, type);
    EXPECT_EQ(layout.header.size() % 8, 0u);
    std::vector<std::byte> data(values.size() * static_cast<std::size_t>(bytes_of(type)));
    encode<double>(values, type, data);
    EXPECT_EQ(layout.bytes, static_cast<std::int64_t>(layout.header.size() + data.size()));
    EXPECT_EQ(layout.begin[1] - layout.begin[0], 6 * bytes_of(type));
    const ScratchFolder folder;
    write_file(folder / "model.safetensors", text_of(layout.header) + text_of(data));
    const SafetensorsFolder file(folder.path());
    EXPECT_EQ(file.shape("z \"quoted\""), (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(file.info("empty").elements, 0);
    auto stored = file.read("z \"quoted\"");
    for (const double value : file.read("a")) stored.push_back(value);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = type == StoredType::float64 ? values[i]
                              : type == StoredType::float32
                                  ? static_cast<double>(static_cast<float>(values[i]))
                                  : rounded(values[i]);
      EXPECT_EQ(stored[i], expected) << torch_name(type) << " " << i;
    }
  }
}
