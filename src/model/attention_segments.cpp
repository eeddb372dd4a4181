// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/attention_segments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace minisp::model {

void check_attention_shape(const AttentionShape& shape) {
  if (shape.max_rows < 0 || shape.heads < 1 || shape.kv_heads < 1 || shape.head_dim < 1 ||
      shape.heads % shape.kv_heads != 0)
    throw std::invalid_argument(fmt::format("attention: {} rows, {} heads, {} K/V heads, head size {}",
                                            shape.max_rows, shape.heads, shape.kv_heads, shape.head_dim));
}

void check_attention_map(const AttentionMap& map, Index max_rows) {
  const std::size_t queries = map.query_row.size(), keys = map.key_row.size();
  if (map.key_begin.size() != queries || map.key_end.size() != queries)
    throw std::invalid_argument(fmt::format("attention map: {} queries, {} and {} key bounds", queries,
                                            map.key_begin.size(), map.key_end.size()));
  if (static_cast<Index>(std::max(queries, keys)) > max_rows)
    throw std::invalid_argument(
        fmt::format("attention map: {} queries and {} keys, prepared for {} rows", queries, keys, max_rows));
  const auto negative = [](int row) { return row < 0; };
  if (std::any_of(map.query_row.begin(), map.query_row.end(), negative) ||
      std::any_of(map.key_row.begin(), map.key_row.end(), negative))
    throw std::invalid_argument("attention map: negative row");
  for (const auto* bounds : {&map.key_begin, &map.key_end}) {
    if (!std::is_sorted(bounds->begin(), bounds->end()))
      throw std::invalid_argument("attention map: a key bound falls from one query to the next");
    if (queries > 0 && (bounds->front() < 0 || bounds->back() > static_cast<int>(keys)))
      throw std::invalid_argument(fmt::format("attention map: key bounds {} to {} with {} keys",
                                              bounds->front(), bounds->back(), keys));
  }
}

Index count_visible_pairs(const AttentionMap& map) {
  Index pairs = 0;
  for (std::size_t i = 0; i < map.query_row.size(); ++i)
    pairs += std::max(0, map.key_end[i] - map.key_begin[i]);
  return pairs;
}

std::vector<AttentionSegment> split_into_segments(const AttentionMap& map, int min_keys) {
  const int queries = static_cast<int>(map.query_row.size()), keys = static_cast<int>(map.key_row.size());
  std::vector<AttentionSegment> segments;
  AttentionSegment open;
  for (int i = 1; i < queries; ++i) {
    const int start = map.key_begin[i];
    if (start >= map.key_end[i - 1] && start - open.key_begin >= min_keys) {
      open.query_end = i;
      open.key_end = start;
      segments.push_back(open);
      open.query_begin = i;
      open.key_begin = start;
    }
  }
  open.query_end = queries;
  open.key_end = keys;
  segments.push_back(open);
  return segments;
}

}  // namespace minisp::model
