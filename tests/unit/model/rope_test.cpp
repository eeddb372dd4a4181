// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/rope.hpp"

#include "layer_support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

namespace minisp::model {
namespace {

using namespace test;

constexpr Index rows = 37;  // two whole blocks of partial sums and a short one
constexpr int head_dim = 8, half = head_dim / 2;
constexpr Index max_positions = 50;
constexpr double epsilon = 1e-6;

/// A model's heads, and what its q and k go through.
struct Case {
  HeadLayout layout;
  bool rotates, norms;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [q, kv] : {std::pair{8, 8}, {8, 4}, {8, 2}, {8, 1}, {24, 6}})
    for (const int blocks : {1, 2, 4, 8})
      for (const bool rotates : {true, false})
        for (const bool norms : {true, false}) {
          const HeadLayout layout{blocks, q, kv, head_dim};
          if (layout.fits()) all.push_back({layout, rotates, norms});
        }
  return all;
}

std::string name(const Case& c) {
  return fmt::format("blocks {} heads {}/{} rotates {} norms {}", c.layout.blocks, c.layout.total_q_heads,
                     c.layout.total_kv_heads, c.rotates, c.norms);
}

struct Inputs {
  Values fused, q_weight, k_weight;
  std::vector<int> positions;
};
template <class T>
Inputs make_inputs(const HeadLayout& layout) {
  return {rounded<T>(random_values(rows * layout.fused_width(), 1)), rounded<T>(random_values(head_dim, 2)),
          rounded<T>(random_values(head_dim, 3)), random_integers(rows, static_cast<int>(max_positions), 4)};
}

const std::vector<double>& frequencies() {
  static const auto values = rope_frequencies(100.0, head_dim, {});
  return values;
}

/// q and k after norm and rotation, v as it is, in the order of the fused row; from the formulas.
Values naive_heads(const Case& c, const Inputs& in) {
  Values out = in.fused;
  const int q = c.layout.total_q_heads, kv = c.layout.total_kv_heads;
  for (std::size_t r = 0; r < rows; ++r)
    for (int head = 0; head < q + kv; ++head) {
      double* x = &out[r * static_cast<std::size_t>(c.layout.fused_width()) +
                       static_cast<std::size_t>(head * head_dim)];
      if (c.norms) {
        double squares = 0;
        for (int i = 0; i < head_dim; ++i) squares += x[i] * x[i];
        const double inverse = 1 / std::sqrt(squares / head_dim + epsilon);
        for (int i = 0; i < head_dim; ++i)
          x[i] *= inverse * (head < q ? in.q_weight : in.k_weight)[static_cast<std::size_t>(i)];
      }
      if (!c.rotates) continue;
      for (int i = 0; i < half; ++i) {
        const double angle = in.positions[r] * frequencies()[static_cast<std::size_t>(i)];
        const double low = x[i], high = x[i + half];
        x[i] = low * std::cos(angle) - high * std::sin(angle);
        x[i + half] = high * std::cos(angle) + low * std::sin(angle);
      }
    }
  return out;
}

/// Where head block b's slot comes from in a fused row: q heads b*q_heads.., the K/V head of query head h is
/// h / (heads / kv_heads).
int source_head(const HeadLayout& l, int block, int slot) {
  const int group = l.total_q_heads / l.total_kv_heads;
  if (slot < l.q_heads()) return block * l.q_heads() + slot;
  const int first_kv = block * l.q_heads() / group;
  const bool is_key = slot < l.q_heads() + l.kv_heads();
  const int kv = first_kv + (slot - l.q_heads()) % l.kv_heads();
  return l.total_q_heads + (is_key ? 0 : l.total_kv_heads) + kv;
}

Values naive_pack(const HeadLayout& l, const Values& fused) {
  Values packed;
  for (int block = 0; block < l.blocks; ++block)
    for (Index r = 0; r < rows; ++r)
      for (int slot = 0; slot < l.q_heads() + 2 * l.kv_heads(); ++slot)
        for (int i = 0; i < head_dim; ++i)
          packed.push_back(fused[static_cast<std::size_t>(r * l.fused_width() +
                                                          source_head(l, block, slot) * head_dim + i)]);
  return packed;
}

template <class T>
RopeTable<T> table_of(const Case& c) {
  return c.rotates ? make_rope_table<T>(frequencies(), max_positions) : RopeTable<T>{};
}
template <class T>
HeadNorm<T> norm_of(const Case& c, const Inputs& in) {
  if (!c.norms) return {};
  return {vector<T>(in.q_weight), vector<T>(in.k_weight), epsilon};
}

template <class T>
Values pack(const Case& c, const Inputs& in) {
  const auto& l = c.layout;
  const auto packed = matrix<T>(l.blocks * rows, l.packed_width(), nan);
  rope_pack_forward<T>(Exec(), l, matrix<T>(rows, l.fused_width(), in.fused), vector<int>(in.positions),
                       table_of<T>(c), norm_of<T>(c, in), packed);
  return values_of(packed);
}

struct Gradients {
  Values fused, q_weight, k_weight;
};
template <class T>
Gradients unpack(const Case& c, const Inputs& in, const Values& dpacked, double before = 0) {
  const auto& l = c.layout;
  const auto dfused = matrix<T>(rows, l.fused_width(), nan);
  HeadNormGradient<T> gradient;
  if (c.norms)
    gradient = {vector<Accumulate<T>>(Values(head_dim, before)),
                vector<Accumulate<T>>(Values(head_dim, before)),
                vector<Accumulate<T>>(Values(static_cast<std::size_t>(head_norm_workspace(rows, l)), nan))};
  rope_pack_backward<T>(Exec(), l, matrix<T>(l.blocks * rows, l.packed_width(), dpacked),
                        vector<int>(in.positions), table_of<T>(c), norm_of<T>(c, in),
                        c.norms ? matrix<T>(rows, l.fused_width(), in.fused) : Matrix<T>(), dfused, gradient);
  return {values_of(dfused), values_of(gradient.q_weight), values_of(gradient.k_weight)};
}

template <class T>
struct RopeTest : testing::Test {};
using Types = testing::Types<bfloat16, float, double>;
TYPED_TEST_SUITE(RopeTest, Types);

TYPED_TEST(RopeTest, PackingAgreesWithTheFormulasInEveryLayout) {
  using T = TypeParam;
  for (const auto& c : cases()) {
    SCOPED_TRACE(name(c));
    const auto in = make_inputs<T>(c.layout);
    EXPECT_LT(relative_error(pack<T>(c, in), naive_pack(c.layout, naive_heads(c, in))), tolerance<T>);
  }
}

// <A x, y> = <x, A^T y>: without norms the pass is linear, a rotation and copies, and the backward pass is
// its transpose; a K/V head that several blocks hold receives the sum of theirs.
TYPED_TEST(RopeTest, BackwardIsTheTranspose) {
  using T = TypeParam;
  for (const auto& c : cases()) {
    if (c.norms) continue;
    SCOPED_TRACE(name(c));
    const auto in = make_inputs<T>(c.layout);
    const auto y = rounded<T>(random_values(c.layout.blocks * rows * c.layout.packed_width(), 5));
    const double forward = dot(pack<T>(c, in), y);
    EXPECT_NEAR(forward, dot(in.fused, unpack<T>(c, in, y).fused), tolerance<T> * norm(in.fused) * norm(y));
  }
}

TEST(Rope, GradientsThroughTheNormsAgreeWithDifferences) {
  for (const Case c : {Case{{1, 4, 2, head_dim}, true, true}, Case{{4, 4, 2, head_dim}, true, true},
                       Case{{2, 4, 2, head_dim}, false, true}}) {
    SCOPED_TRACE(name(c));
    const auto in = make_inputs<double>(c.layout);
    const auto y = random_values(c.layout.blocks * rows * c.layout.packed_width(), 5);
    const auto found = unpack<double>(c, in, y, 2.0);
    const auto loss = [&](const Inputs& at) { return dot(naive_pack(c.layout, naive_heads(c, at)), y); };
    // All of fused would take long: the first row, and a row of the last, short block of rows.
    const auto width = static_cast<std::size_t>(c.layout.fused_width());
    for (const std::size_t r : {std::size_t{0}, std::size_t{36}}) {
      const auto begin = static_cast<std::ptrdiff_t>(r * width),
                 end = begin + static_cast<std::ptrdiff_t>(width);
      const Values row(in.fused.begin() + begin, in.fused.begin() + end);
      const auto expected = differentiate(row, [&](const Values& v) {
        auto at = in;
        std::copy(v.begin(), v.end(), at.fused.begin() + begin);
        return loss(at);
      });
      EXPECT_LT(relative_error(Values(found.fused.begin() + begin, found.fused.begin() + end), expected),
                difference_tolerance);
    }
    const auto minus_before = [](Values v) {
      for (double& x : v) x -= 2.0;
      return v;
    };
    EXPECT_LT(relative_error(minus_before(found.q_weight), differentiate(in.q_weight,
                                                                         [&](const Values& v) {
                                                                           auto at = in;
                                                                           at.q_weight = v;
                                                                           return loss(at);
                                                                         })),
              difference_tolerance);
    EXPECT_LT(relative_error(minus_before(found.k_weight), differentiate(in.k_weight,
                                                                         [&](const Values& v) {
                                                                           auto at = in;
                                                                           at.k_weight = v;
                                                                           return loss(at);
                                                                         })),
              difference_tolerance);
  }
}

TYPED_TEST(RopeTest, Fp32GradientsAgreeWithFp64) {
  using T = TypeParam;
  for (const auto& c : cases()) {
    SCOPED_TRACE(name(c));
    const auto in = make_inputs<T>(c.layout);
    const auto y = rounded<T>(random_values(c.layout.blocks * rows * c.layout.packed_width(), 5));
    const auto found = unpack<T>(c, in, y), exact = unpack<double>(c, in, y);
    EXPECT_LT(relative_error(found.fused, exact.fused), tolerance<T>);
    if (!c.norms) continue;
    EXPECT_LT(relative_error(found.q_weight, exact.q_weight), tolerance<T>);
    EXPECT_LT(relative_error(found.k_weight, exact.k_weight), tolerance<T>);
  }
}

TYPED_TEST(RopeTest, OneBlockWorksInPlace) {
  using T = TypeParam;
  for (const auto& c : cases()) {
    if (c.layout.blocks > 1) continue;
    SCOPED_TRACE(name(c));
    const auto in = make_inputs<T>(c.layout);
    const auto buffer = matrix<T>(rows, c.layout.fused_width(), in.fused);
    rope_pack_forward<T>(Exec(), c.layout, buffer, vector<int>(in.positions), table_of<T>(c),
                         norm_of<T>(c, in), buffer);
    EXPECT_EQ(values_of(buffer), pack<T>(c, in));
    if (c.norms) continue;
    const auto y = random_values(rows * c.layout.fused_width(), 5);
    const auto gradient = matrix<T>(rows, c.layout.fused_width(), y);
    rope_pack_backward<T>(Exec(), c.layout, gradient, vector<int>(in.positions), table_of<T>(c), {},
                          Matrix<T>(), gradient, {});
    EXPECT_EQ(values_of(gradient), unpack<T>(c, in, y).fused);
  }
}

// The scores q_i . k_j depend on the distance of i and j alone.
TEST(Rope, ScoresDependOnTheDistance) {
  const Case c{{1, 1, 1, head_dim}, true, false};
  auto in = make_inputs<double>(c.layout);
  const auto width = static_cast<std::size_t>(c.layout.fused_width());
  for (std::size_t i = 0; i < in.fused.size(); ++i) in.fused[i] = in.fused[i % width];
  for (std::size_t r = 0; r < rows; ++r) in.positions[r] = static_cast<int>(r);
  const auto packed = pack<double>(c, in);
  const auto score = [&](std::size_t i, std::size_t j) {
    double sum = 0;
    for (std::size_t e = 0; e < head_dim; ++e)
      sum += packed[i * width + e] * packed[j * width + head_dim + e];
    return sum;
  };
  EXPECT_NEAR(score(3, 1), score(30, 28), 1e-13);
  EXPECT_GT(std::abs(score(3, 1) - score(3, 2)), 1e-3);
}

TEST(Rope, PlainFrequencies) {
  const auto f = rope_frequencies(10000.0, 8, {});
  ASSERT_EQ(f.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(f[i], std::pow(10.0, -static_cast<double>(i)), 1e-15);
}

// Llama 3 (factor 8, low 1, high 4, original 8192), by hand. theta = 500000, d = 128: f_i = 500000^(-i/64).
TEST(Rope, Llama3ScalingKeepsShortWavesAndStretchesLongOnes) {
  const config::RopeScaling scaling{8, 1, 4, 8192};
  const auto plain = rope_frequencies(500000.0, 128, {}), scaled = rope_frequencies(500000.0, 128, scaling);
  int kept = 0, stretched = 0, blended = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2 * std::numbers::pi / plain[i];
    if (wavelength < 8192.0 / 4) {
      EXPECT_EQ(scaled[i], plain[i]) << i;
      ++kept;
    } else if (wavelength > 8192.0) {
      EXPECT_NEAR(scaled[i], plain[i] / 8, 1e-16 * plain[i]) << i;
      ++stretched;
    } else {
      const double smooth = (8192 / wavelength - 1) / 3;
      EXPECT_NEAR(scaled[i], (1 - smooth) * plain[i] / 8 + smooth * plain[i], 1e-15 * plain[i]) << i;
      ++blended;
    }
  }
  // Waves shorter than 2048: 500000^(i/64) < 2048 / 2 pi = 325.9, i < 28.2; longer than 8192: i > 34.9.
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(blended, 6);
  EXPECT_EQ(stretched, 29);
}

TEST(Rope, RefusesHeadsThatDoNotFit) {
  const auto positions = vector<int>(std::vector<int>{0});
  const auto forward = [&](const HeadLayout& l) {
    rope_pack_forward<double>(Exec(), l, matrix<double>(1, l.fused_width(), 1.0), positions,
                              make_rope_table<double>({1.0}, 2), {},
                              matrix<double>(l.blocks, l.packed_width(), 0.0));
  };
  EXPECT_THROW(forward({2, 3, 3, 2}), std::invalid_argument);
  EXPECT_THROW(forward({2, 6, 3, 2}), std::invalid_argument);
  EXPECT_THROW(forward({1, 2, 2, 3}), std::invalid_argument);
  EXPECT_NO_THROW(forward({2, 2, 1, 2}));
}

}  // namespace
}  // namespace minisp::model
