// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "attention_support.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace minisp::test {
namespace {

// Sizes go past a tile of queries (192) and of keys (96), and meet their edges.
std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> all;
  const auto add = [&](std::string name, AttentionMap map, Heads heads, int rows = 0) {
    int largest = rows;
    for (int row : map.query_row) largest = std::max(largest, row + 1);
    for (int row : map.key_row) largest = std::max(largest, row + 1);
    all.push_back({std::move(name), std::move(map), largest, heads});
  };
  add("one token", documents({1}), {1, 1, 4});
  add("five tokens, head size 4", documents({5}), {2, 2, 4});
  add("head size 8", documents({67}), {3, 1, 8});
  add("head size 16", documents({130}), {2, 1, 16});
  add("head size 20 and seven heads", documents({101}), {7, 7, 20});
  add("head size 64", documents({289}), {2, 1, 64});
  add("head size 128", documents({193}), {2, 2, 128});
  add("head size 80, edge of a tile", documents({192}), {1, 1, 80});
  add("several tiles of queries", documents({601}), {2, 1, 32});
  add("packed documents", documents({1, 1, 7, 95, 1, 97, 3, 250, 2}), {4, 2, 16});
  add("documents of one token", documents(std::vector<int>(211, 1)), {1, 1, 8});
  add("several segments", documents({520, 3, 517, 600, 1}), {2, 1, 8});
  add("shuffled rows", shuffled(documents({150, 61, 99}), 1), {4, 2, 12});
  add("any intervals", random_map(403, 310, 2), {2, 1, 16});
  add("any intervals, few keys", shuffled(random_map(500, 40, 3), 4), {2, 2, 24});
  add("any intervals, few queries", shuffled(random_map(30, 700, 5), 6), {3, 3, 24});
  {
    AttentionMap map = identity_rows(90, 400);  // a chunk of queries far behind the first key
    for (int i = 0; i < 90; ++i) map.key_begin.push_back(i < 20 ? 0 : 130), map.key_end.push_back(310 + i);
    add("queries behind the keys", map, {2, 1, 16});
  }
  {
    AttentionMap map = identity_rows(100, 120);  // neither the first nor the last query sees anything
    for (int i = 0; i < 100; ++i) {
      map.key_begin.push_back(i < 40 ? 10 : 60);
      map.key_end.push_back(i < 30 ? 10 : i < 80 ? 55 : 60);
    }
    for (auto& row : map.query_row) row = 2 * row + 1;  // and half of the rows belong to nobody
    add("queries that see nothing", map, {2, 1, 16}, 210);
  }
  return all;
}

struct Tolerance {
  double lse, forward, backward;
};

// Errors are roundings of sums of up to a few hundred terms of size about 1: a few eps (1.1e-16, 6e-8) times
// the few units that the scores themselves have. A wrong term is wrong by 1e-3 and more.
// What is stored in bf16 is rounded by 2^-8 of its size at most, and by 2^-9 in the root mean square over
// many; the backward pass reads an output that was.
template <class T>
constexpr Tolerance tolerance() {
  if (sizeof(T) == 2) return {2e-6, 1.0 / 512, 4.0 / 512};
  return sizeof(T) == 8 ? Tolerance{1e-14, 1e-14, 5e-14} : Tolerance{2e-6, 2e-6, 1e-5};
}

void expect_same(const Values& ours, const Values& right, const Tolerance& t, const std::string& name) {
  EXPECT_LT(relative_difference(ours.o, right.o), t.forward) << name;
  EXPECT_LT(relative_difference(ours.lse, right.lse), t.lse) << name;
  EXPECT_LT(relative_difference(ours.dq, right.dq), t.backward) << name;
  EXPECT_LT(relative_difference(ours.dk, right.dk), t.backward) << name;
  EXPECT_LT(relative_difference(ours.dv, right.dv), t.backward) << name;
}

template <class T>
class AttentionTest : public testing::Test {};
using Precisions = testing::Types<double, float, bfloat16>;
TYPED_TEST_SUITE(AttentionTest, Precisions);

TYPED_TEST(AttentionTest, EqualsItsDefinition) {
  for (const auto& c : cases()) {
    Values ours = random_values<TypeParam>(c, 11), right = ours;
    run_attention<TypeParam>(c, ours);
    run_reference(c, right);
    expect_same(ours, right, tolerance<TypeParam>(), c.name);
  }
}

TYPED_TEST(AttentionTest, DeviceEngineEqualsItsDefinition) {
  for (const auto& c : cases()) {
    Values ours = random_values<TypeParam>(c, 12), right = ours;
    run_device_engine<TypeParam>(c, ours);
    run_reference(c, right);
    expect_same(ours, right, tolerance<TypeParam>(), c.name);
  }
}

TYPED_TEST(AttentionTest, RepeatsItselfBitForBit) {
  for (const auto& c : cases()) {
    Values first = random_values<TypeParam>(c, 13), second = first;
    run_attention<TypeParam>(c, first);
    run_attention<TypeParam>(c, second);
    EXPECT_EQ(first.o, second.o) << c.name;
    EXPECT_EQ(first.lse, second.lse) << c.name;
    EXPECT_EQ(first.dq, second.dq) << c.name;
    EXPECT_EQ(first.dk, second.dk) << c.name;
    EXPECT_EQ(first.dv, second.dv) << c.name;
  }
}

TYPED_TEST(AttentionTest, OneObjectServesMapsInTurn) {
  const AttentionCase large{"large", documents({300, 41}), 341, {2, 1, 16}};
  const AttentionCase small{"small", documents({17}), 17, {2, 1, 16}};
  model::Attention<TypeParam> engine(341, 2, 1, 16);
  Values first = random_values<TypeParam>(large, 14), other = random_values<TypeParam>(small, 15),
         again = first;
  run<TypeParam>(engine, large, first);
  run<TypeParam>(engine, small, other);
  run<TypeParam>(engine, large, again);
  EXPECT_EQ(first.o, again.o);
  EXPECT_EQ(first.dq, again.dq);
  EXPECT_EQ(first.dk, again.dk);
  EXPECT_EQ(first.dv, again.dv);
}

// What token t holds must not reach the outputs of earlier tokens, not even in the last bit.
TYPED_TEST(AttentionTest, LaterTokensDoNotLeak) {
  const AttentionCase c{"causal", documents({260}), 260, {2, 1, 32}};
  const Values base = random_values<TypeParam>(c, 16);
  Values before = base;
  run_attention<TypeParam>(c, before);
  for (int t : {1, 7, 8, 47, 48, 95, 96, 191, 192, 200, 259}) {
    Values after = base;
    for (int e = 0; e < 32; ++e) {
      after.k[t * 32 + e] = 50;
      after.v[t * 32 + e] = -50;
    }
    run_attention<TypeParam>(c, after);
    const int width = 2 * 32;
    EXPECT_TRUE(std::equal(after.o.begin(), after.o.begin() + t * width, before.o.begin())) << t;
    EXPECT_FALSE(std::equal(after.o.begin() + t * width, after.o.begin() + (t + 1) * width,
                            before.o.begin() + t * width))
        << t;
  }
}

// One document changed in every token and every gradient: the others keep every bit, forward and backward.
TYPED_TEST(AttentionTest, DocumentsDoNotLeak) {
  const std::vector<int> lengths{30, 1, 77, 140, 52};
  const AttentionCase c{"documents", documents(lengths), 300, {2, 1, 16}};
  const Values base = random_values<TypeParam>(c, 17);
  Values before = base;
  run_attention<TypeParam>(c, before);
  int start = 0;
  for (int length : lengths) {
    Values after = base;
    const auto disturb = [&](std::vector<double>& x, int width) {
      for (int i = start * width; i < (start + length) * width; ++i) x[i] = 3 * x[i] + 1;
    };
    disturb(after.q, 32), disturb(after.k, 16), disturb(after.v, 16), disturb(after.dout, 32);
    run_attention<TypeParam>(c, after);
    const auto others_equal = [&](const std::vector<double>& a, const std::vector<double>& b, int width) {
      return std::equal(a.begin(), a.begin() + start * width, b.begin()) &&
             std::equal(a.begin() + (start + length) * width, a.end(), b.begin() + (start + length) * width);
    };
    EXPECT_TRUE(others_equal(after.o, before.o, 32)) << start;
    EXPECT_TRUE(others_equal(after.dq, before.dq, 32)) << start;
    EXPECT_TRUE(others_equal(after.dk, before.dk, 16)) << start;
    EXPECT_TRUE(others_equal(after.dv, before.dv, 16)) << start;
    EXPECT_NE(after.dv, before.dv) << start;
    start += length;
  }
}

// Scores of +-1e4: a softmax without its maximum taken out would overflow. Rows are then one-hot, and the
// definition still has an answer.
TYPED_TEST(AttentionTest, HugeScoresStayFinite) {
  const AttentionCase c{"huge", documents({150}), 150, {1, 1, 16}};
  Values ours = random_values<TypeParam>(c, 18, 1.0);
  for (int i = 0; i < 150 * 16; ++i) {
    ours.q[i] = std::copysign(50, ours.q[i]);
    ours.k[i] = std::copysign(50, ours.k[i]);
  }
  for (int i = 0; i < 16; ++i)
    ours.k[i] = ours.k[40 * 16 + i] = ours.q[40 * 16 + i] = 50;  // 16 * 2500 / 4 = 1e4
  Values right = ours;
  run_attention<TypeParam>(c, ours);
  run_reference(c, right);
  double largest = 0;
  for (double value : right.lse) largest = std::max(largest, value);
  EXPECT_GE(largest, 9999);
  // Scores are multiples of 312.5 in any precision; exp2 of multiples of log2(e) carries eps * 1.4e4.
  const double allowed = 4e4 * std::numeric_limits<Accumulate<TypeParam>>::epsilon();
  const auto rounding = tolerance<TypeParam>();
  expect_same(ours, right, {allowed, allowed + rounding.forward, 10 * allowed + rounding.backward}, "huge");
  for (const auto* x : {&ours.o, &ours.dq, &ours.dk, &ours.dv})
    for (double value : *x) ASSERT_TRUE(std::isfinite(value));
}

TYPED_TEST(AttentionTest, QueriesThatSeeNothingGiveZeros) {
  AttentionMap map = identity_rows(60, 60);
  for (int i = 0; i < 60; ++i)
    map.key_begin.push_back(std::min(i, 50)), map.key_end.push_back(i % 2 ? i + 1 : i);
  for (int i = 1; i < 60; ++i) map.key_end[i] = std::max(map.key_end[i], map.key_end[i - 1]);
  map.key_begin.back() = 60;
  const AttentionCase c{"empty rows", map, 60, {2, 2, 8}};
  Values x = random_values<TypeParam>(c, 19);
  run_attention<TypeParam>(c, x);
  int empty = 0;
  for (int i = 0; i < 60; ++i) {
    if (map.key_begin[i] < map.key_end[i]) continue;
    ++empty;
    for (int h = 0; h < 2; ++h) EXPECT_EQ(x.lse[h * 60 + i], -std::numeric_limits<double>::infinity()) << i;
    for (int e = 0; e < 16; ++e) {
      EXPECT_EQ(x.o[i * 16 + e], 0) << i;
      EXPECT_EQ(x.dq[i * 16 + e], 0) << i;
    }
  }
  EXPECT_GE(empty, 2);
  for (const auto* v : {&x.dk, &x.dv})
    for (double value : *v) ASSERT_TRUE(std::isfinite(value));
}

// Query head h reads K/V head h / group: eight heads on two K/V heads are four heads on each, one by one.
TEST(Attention, GroupedHeadsAreHeadsOnSharedKeys) {
  const AttentionCase grouped{"grouped", documents({70, 45}), 115, {8, 2, 16}};
  const AttentionCase alone{"alone", grouped.map, 115, {1, 1, 16}};
  Values all = random_values<double>(grouped, 20);
  run_attention<double>(grouped, all);
  const auto head_of = [](const std::vector<double>& x, int heads, int h) {
    std::vector<double> one;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (static_cast<int>(i / 16 % heads) == h) one.push_back(x[i]);
    return one;
  };
  for (int kv = 0; kv < 2; ++kv) {
    std::vector<double> dk(115 * 16, 0.0);
    for (int h = 4 * kv; h < 4 * kv + 4; ++h) {
      Values one;
      one.q = head_of(all.q, 8, h), one.dout = head_of(all.dout, 8, h);
      one.k = head_of(all.k, 2, kv), one.v = head_of(all.v, 2, kv);
      run_attention<double>(alone, one);
      EXPECT_EQ(one.o, head_of(all.o, 8, h)) << h;
      EXPECT_EQ(one.dq, head_of(all.dq, 8, h)) << h;
      for (std::size_t i = 0; i < dk.size(); ++i) dk[i] += one.dk[i];
    }
    EXPECT_LT(relative_difference(head_of(all.dk, 2, kv), dk), 1e-14) << kv;
  }
}

// d(sum dout * o) along a random direction against the central difference of step h: error h^2 plus eps / h.
TEST(Attention, GradientsMatchCentralDifferences) {
  const AttentionCase c{"central", shuffled(documents({40, 73}), 7), 113, {4, 2, 16}};
  const Values base = random_values<double>(c, 21);
  Values analytic = base;
  run_attention<double>(c, analytic);
  const auto objective = [&](const Values& at) {
    Values x = at;
    run_attention<double>(c, x);
    return std::inner_product(x.o.begin(), x.o.end(), x.dout.begin(), 0.0);
  };
  const double h = 1e-5;
  const auto check = [&](std::vector<double> Values::*input, const std::vector<double>& gradient,
                         const char* name) {
    const auto direction = random_values<double>(c, 22).*input;
    Values up = base, down = base;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      (up.*input)[i] += h * direction[i];
      (down.*input)[i] -= h * direction[i];
    }
    const double expected = (objective(up) - objective(down)) / (2 * h);
    const double ours = std::inner_product(gradient.begin(), gradient.end(), direction.begin(), 0.0);
    EXPECT_NEAR(ours / expected, 1, 1e-7) << name;
  };
  check(&Values::q, analytic.dq, "dq");
  check(&Values::k, analytic.dk, "dk");
  check(&Values::v, analytic.dv, "dv");
}

TEST(Attention, CountsVisiblePairs) {
  model::Attention<float> engine(10, 1, 1, 4);
  engine.set_map(documents({4, 6}));
  EXPECT_EQ(engine.visible_pairs(), 10 + 21);
  EXPECT_GT(engine.workspace_bytes(), 0u);
  EXPECT_EQ(engine.workspace_bytes(), (model::Attention<float>::workspace_bytes(10, 1, 1, 4)));
}

TEST(Attention, RefusesMapsThatAreNotMonotoneOrTooLarge) {
  model::Attention<float> engine(10, 1, 1, 4);
  AttentionMap map = documents({10});
  EXPECT_NO_THROW(engine.set_map(map));
  map.key_end[4] = 2;
  EXPECT_THROW(engine.set_map(map), std::invalid_argument);
  map = documents({10});
  map.key_end[9] = 11;
  EXPECT_THROW(engine.set_map(map), std::invalid_argument);
  EXPECT_THROW(engine.set_map(documents({11})), std::invalid_argument);
  map = documents({10});
  map.key_begin.pop_back();
  EXPECT_THROW(engine.set_map(map), std::invalid_argument);
  EXPECT_THROW((model::Attention<float>(10, 3, 2, 4)), std::invalid_argument);
}

}  // namespace
}  // namespace minisp::test
