// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The attention algorithm, once, for every engine: which tiles are visited and in which order their products
// are taken. An engine is a Tile: a set of queries and a set of keys with their scores, held wherever is best
// (registers and cache on a host, team scratch on a device).
//
// Forward, FlashAttention-2 algorithm 1, with scores in units of log 2 (s = q.k log2(e) / sqrt(d)):
//   m' = max(m, max_j s_j)   p_j = 2^(s_j - m')   l = 2^(m - m') l + sum_j p_j   o = 2^(m - m') o + sum_j p_j
//   v_j at the end  o /= l,  lse = ln(2) (m + log2(l)).
// Backward, algorithm 2, with delta = do . o:
//   p = exp(s - lse)   dv += p^T do   ds = p (do v^T - delta)   dk += ds^T q / sqrt(d)   dq += ds k /
//   sqrt(d).
//
// A tile's queries may come in several parts, each with scores of its own that fit into the nearest cache,
// so that the keys in hand serve all of them.
#pragma once

#include <Kokkos_Core.hpp>

namespace minisp::model {

template <class Tile>
KOKKOS_INLINE_FUNCTION void attention_forward(Tile& tile) {
  tile.load_queries();
  for (int keys = tile.first_key_tile(); keys < tile.end_key_tile(); ++keys) {
    tile.load_keys_and_values(keys);
    for (int part = 0; part < tile.parts(); ++part) {
      if (tile.sees_nothing(part)) continue;
      tile.scores(part);             // s = q k^T, -inf where masked
      tile.raise_maximum(part);      // m, and l *= 2^(old m - m)
      tile.probabilities(part);      // p = 2^(s - m), l += row sums
      tile.accumulate_output(part);  // o = 2^(old m - m) o + p v
    }
  }
  tile.store_output();
}

/// Adds to dq, and to dk and dv where the tile's worker owns them (Tile::accumulates_key_gradients): then one
/// sweep takes all five products.
template <class Tile>
KOKKOS_INLINE_FUNCTION void attention_backward_over_keys(Tile& tile) {
  tile.load_queries_and_gradients();
  for (int keys = tile.first_key_tile(); keys < tile.end_key_tile(); ++keys) {
    tile.load_keys_and_values(keys);
    for (int part = 0; part < tile.parts(); ++part) {
      if (tile.sees_nothing(part)) continue;
      tile.recompute_probabilities(part);    // p = exp(s - lse), 0 where masked
      tile.score_gradients(part);            // ds = p (do v^T - delta)
      tile.accumulate_query_gradient(part);  // dq += ds k
    }
    if constexpr (Tile::accumulates_key_gradients)
      tile.accumulate_key_gradients();  // dv += p^T do, dk += ds^T q
  }
  tile.store_query_gradient();
}

/// Where the keys of a tile are seen by queries of several workers: the second sweep, with the keys held and
/// the queries passing by, so that each dk and dv has one owner and no atomics are needed.
template <class Tile>
KOKKOS_INLINE_FUNCTION void attention_backward_over_queries(Tile& tile) {
  tile.load_keys_and_values(tile.own_key_tile());
  for (int queries = tile.first_query_tile(); queries < tile.end_query_tile(); ++queries) {
    tile.load_queries_and_gradients(queries);
    tile.recompute_probabilities(0);
    tile.score_gradients(0);
    tile.accumulate_key_gradients();
  }
  tile.store_key_gradients();
}

}  // namespace minisp::model
