// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What both attention engines need to know of a map: whether it is well formed, how much it lets through, and
// where it falls apart into pieces that share no keys.
#pragma once

#include "model/attention.hpp"

#include <vector>

namespace minisp::model {

/// Sizes of one attention problem as its owner announced them.
struct AttentionShape {
  Index max_rows = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;

  int group() const { return heads / kv_heads; }
};

/// Throws std::invalid_argument on sizes that are not positive or heads that kv_heads does not divide.
void check_attention_shape(const AttentionShape& shape);

/// Throws std::invalid_argument when sizes disagree or exceed max_rows, a bound falls as the query grows,
/// lies outside [0, keys], or a row is negative.
void check_attention_map(const AttentionMap& map, Index max_rows);

/// sum_i max(0, key_end[i] - key_begin[i]).
Index count_visible_pairs(const AttentionMap& map);

/// Queries [query_begin, query_end) see keys in [key_begin, key_end) only, and nobody else does.
struct AttentionSegment {
  int query_begin = 0, query_end = 0;
  int key_begin = 0, key_end = 0;
};

/// Cuts the map into segments that cover every query and every key, in order. Neighbours are joined until a
/// segment has min_keys keys, so that many short documents do not make many segments.
std::vector<AttentionSegment> split_into_segments(const AttentionMap& map, int min_keys);

}  // namespace minisp::model
