// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/dropout.hpp"

#include "layer_support.hpp"

#include <algorithm>

namespace minisp::model {
namespace {

using namespace test;

constexpr Index rows = 40, columns = 103;

Dropout dropout_of(double probability, const std::vector<Index>& tokens, Index first_token = 0) {
  return {probability, 5, vector<Index>(tokens), first_token};
}
std::vector<Index> counted(Index n, Index first = 0) {
  std::vector<Index> v;
  for (Index i = 0; i < n; ++i) v.push_back(first + i);
  return v;
}
/// Dropout of ones: 0, or the factor of what is kept.
template <class T = double>
Values mask_of(const Dropout& dropout, Index layer = 0, Branch branch = Branch::mlp) {
  const auto n = static_cast<Index>(dropout.tokens.extent(0));
  const auto y = matrix<T>(n, columns, nan);
  apply_dropout<T>(Exec(), dropout, layer, branch, matrix<T>(n, columns, 1.0), y);
  return values_of(y);
}

TEST(Dropout, DropsThatPartAndKeepsTheMean) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const auto mask = mask_of(dropout_of(p, counted(1000)));
    const double n = static_cast<double>(mask.size());
    const double dropped = static_cast<double>(std::count(mask.begin(), mask.end(), 0.0));
    // A binomial count: five standard deviations are left by one seed in a million.
    EXPECT_NEAR(dropped, p * n, 5 * std::sqrt(n * p * (1 - p))) << p;
    EXPECT_NEAR(*std::max_element(mask.begin(), mask.end()), 1 / (1 - p), 1e-8);
    EXPECT_EQ(static_cast<double>(std::count(mask.begin(), mask.end(), mask[0] == 0 ? 0 : mask[0])),
              mask[0] == 0 ? dropped : n - dropped);  // two values, no third
  }
}

// The mask of a token does not depend on who else is on its rank, nor on the type.
TEST(Dropout, IsAFunctionOfTheTokenAlone) {
  const auto whole = mask_of(dropout_of(0.3, counted(rows)));
  const auto part = mask_of(dropout_of(0.3, counted(7, 20)));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 20 * columns));
  const auto later = mask_of(dropout_of(0.3, counted(7), 20));  // the same tokens, counted from a later one
  EXPECT_EQ(later, part);
  EXPECT_EQ(mask_of<float>(dropout_of(0.5, counted(rows))), mask_of<double>(dropout_of(0.5, counted(rows))));
  EXPECT_EQ(mask_of<bfloat16>(dropout_of(0.5, counted(rows))),
            mask_of<double>(dropout_of(0.5, counted(rows))));
}

// Tokens, layers and branches are independent: two masks of p = 1/2 agree in half of their elements.
TEST(Dropout, EveryPlaceHasItsOwnMask) {
  const auto one = mask_of(dropout_of(0.5, counted(rows)));
  const double n = static_cast<double>(one.size());
  for (const auto& other : {mask_of(dropout_of(0.5, counted(rows)), 1),
                            mask_of(dropout_of(0.5, counted(rows)), 0, Branch::attention),
                            mask_of(dropout_of(0.5, counted(rows, rows)))}) {
    double equal = 0;
    for (std::size_t i = 0; i < one.size(); ++i) equal += one[i] == other[i];
    EXPECT_NEAR(equal, n / 2, 5 * std::sqrt(n) / 2);
  }
}

TEST(Dropout, InPlaceIsTheSame) {
  const auto dropout = dropout_of(0.4, counted(rows));
  const auto values = random_values(rows * columns, 1);
  const auto x = matrix<double>(rows, columns, values, 3), y = matrix<double>(rows, columns, nan);
  apply_dropout<double>(Exec(), dropout, 2, Branch::attention, x, y);
  apply_dropout<double>(Exec(), dropout, 2, Branch::attention, x, x);
  EXPECT_EQ(values_of(x), values_of(y));
  const auto mask = mask_of(dropout, 2, Branch::attention);
  const auto found = values_of(y);
  for (std::size_t i = 0; i < mask.size(); ++i) ASSERT_EQ(found[i], mask[i] * values[i]);
}

}  // namespace
}  // namespace minisp::model
