// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/embedding.hpp"

#include "layer_support.hpp"

namespace minisp::model {
namespace {

using namespace test;

constexpr Index rows = 53, hidden = 35;
constexpr int vocabulary = 11, max_positions = 20;

HostVector<const int> host_view(const std::vector<int>& v) {
  return HostVector<const int>(v.data(), v.size());
}

template <class T>
struct EmbeddingTest : testing::Test {};
using Types = testing::Types<bfloat16, float, double>;
TYPED_TEST_SUITE(EmbeddingTest, Types);

TEST(TokenIndex, GroupsRowsInAscendingOrder) {
  TokenIndex index(8);
  const std::vector<int> values = {5, 2, 5, 0, 2, 5};
  index.set(host_view(values));
  ASSERT_EQ(index.rows(), 6);
  ASSERT_EQ(index.groups(), 3);
  EXPECT_EQ(values_of(index.values())[1], 2);
  EXPECT_EQ(values_of(index.row_order())[0], 3);
  const auto order = values_of(index.row_order()), offsets = values_of(index.offsets());
  EXPECT_EQ(Values(order.begin(), order.begin() + 6), (Values{3, 1, 4, 0, 2, 5}));
  EXPECT_EQ(Values(offsets.begin(), offsets.begin() + 4), (Values{0, 1, 3, 6}));
  // A shorter batch after a longer one.
  const std::vector<int> second = {7, 7};
  index.set(host_view(second));
  EXPECT_EQ(index.groups(), 1);
  EXPECT_EQ(values_of(index.offsets())[1], 2);
  EXPECT_THROW(index.set(host_view(std::vector<int>(9, 1))), std::invalid_argument);
}

TYPED_TEST(EmbeddingTest, ForwardIsALookUp) {
  using T = TypeParam;
  const auto tokens = random_integers(rows, vocabulary, 1),
             positions = random_integers(rows, max_positions, 2);
  const auto table = rounded<T>(random_values(vocabulary * hidden, 3));
  const auto position_table = rounded<T>(random_values(max_positions * hidden, 4));
  Values plain, both;
  for (std::size_t r = 0; r < rows; ++r)
    for (int c = 0; c < hidden; ++c) {
      const double token = table[static_cast<std::size_t>(tokens[r] * hidden + c)];
      const double position = position_table[static_cast<std::size_t>(positions[r] * hidden + c)];
      plain.push_back(token);
      both.push_back(stored<T>(token + position));
    }
  const auto out = matrix<T>(rows, hidden, nan);
  embedding_forward<T>(Exec(), vector<int>(tokens), matrix<T>(vocabulary, hidden, table), out);
  EXPECT_EQ(values_of(out), plain);
  embedding_forward<T>(Exec(), vector<int>(tokens), matrix<T>(vocabulary, hidden, table),
                       vector<int>(positions), matrix<T>(max_positions, hidden, position_table), out);
  EXPECT_EQ(values_of(out), both);
}

TYPED_TEST(EmbeddingTest, BackwardScattersAndAccumulates) {
  using T = TypeParam;
  const auto tokens = random_integers(rows, vocabulary - 1, 1);  // the last token does not occur
  const auto dout = rounded<T>(random_values(rows * hidden, 5));
  Values expected(vocabulary * hidden, 1.0);
  for (std::size_t r = 0; r < rows; ++r)
    for (int c = 0; c < hidden; ++c)
      expected[static_cast<std::size_t>(tokens[r] * hidden + c)] +=
          dout[r * hidden + static_cast<std::size_t>(c)];
  TokenIndex index(rows);
  index.set(host_view(tokens));
  const auto run = [&] {
    const auto dtable = matrix<Accumulate<T>>(vocabulary, hidden, 1.0);
    embedding_backward<T>(Exec(), index, matrix<T>(rows, hidden, dout, 2), dtable);
    return values_of(dtable);
  };
  const auto found = run();
  EXPECT_LT(relative_error(found, expected), tolerance<T>);
  EXPECT_EQ(found.back(), 1.0);
  EXPECT_EQ(run(), found);
}

// <forward(x), y> = <x, backward(y)>: the scatter-add is the look-up's transpose.
TEST(Embedding, BackwardIsTheTranspose) {
  const auto tokens = random_integers(rows, vocabulary, 1);
  const auto table = random_values(vocabulary * hidden, 3), y = random_values(rows * hidden, 5);
  TokenIndex index(rows);
  index.set(host_view(tokens));
  const auto out = matrix<double>(rows, hidden, nan), dtable = matrix<double>(vocabulary, hidden, 0.0);
  embedding_forward<double>(Exec(), vector<int>(tokens), matrix<double>(vocabulary, hidden, table), out);
  embedding_backward<double>(Exec(), index, matrix<double>(rows, hidden, y), dtable);
  const double forward = dot(values_of(out), y);
  EXPECT_NEAR(forward, dot(table, values_of(dtable)), 1e-13 * norm(table) * norm(y));
}

}  // namespace
}  // namespace minisp::model
