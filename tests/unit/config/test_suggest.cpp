// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/suggest.hpp"

#include <gtest/gtest.h>

using minisp::config::edit_distance;
using minisp::config::nearest;

TEST(Suggest, DistanceCountsSingleEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("layers", "layer"), 1u);
  EXPECT_EQ(edit_distance("stpes", "steps"), 1u);  // neighbours swapped
  EXPECT_EQ(edit_distance("bsap", "basp"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("sitting", "kitten"), 3u);
}

TEST(Suggest, FarWordsGetNoSuggestion) {
  EXPECT_EQ(nearest("ulyses", {"single", "ulysses", "basp"}), "ulysses");
  EXPECT_EQ(nearest("ring", {"ulysses", "data-parallel"}), "");
}
