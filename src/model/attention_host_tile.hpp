// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Host engine of attention: tiles in cache, products in vector registers. Scores are held transposed, keys
// down and queries along the vector lanes: maxima, sums and rescaling then need no sums across lanes.
//
// For part x of the queries (lanes of them) and a tile of keys, the five products are
//   s^T  (keys, lanes)   = K (keys, d)       Q^T  (d, lanes)
//   o^T  (d, lanes)     += V^T (d, keys)     p^T  (keys, lanes)
//   dp^T (keys, lanes)   = V (keys, d)       dO^T (d, lanes)
//   dq^T (d, lanes)     += K^T (d, keys)     ds^T (keys, lanes)
//   dv   (keys, d)      += p^T (keys, lanes) dO   (lanes, d)        and dk likewise from ds^T and Q.
// The left operand is read element by element, the right one in vectors. Rows of K and V are brought together
// once for a head.
#pragma once

#include "math/precision.hpp"
#include "math/simd_product.hpp"
#include "math/simd_storage.hpp"
#include "math/simd_transpose.hpp"
#include "model/attention_segments.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <type_traits>

namespace minisp::model::host {

inline constexpr int key_tile = 96;     ///< keys of a tile: a multiple of every block of rows below
inline constexpr int query_tile = 192;  ///< queries that share a visit of a key tile

/// Sizes in elements that follow from the number type and the processor.
template <class Real>
struct TileSizes {
  static constexpr int width = math::Simd<Real>::size();
  static constexpr bool many = math::vector_registers >= 32;
  static constexpr int query_vectors = 3;
  static constexpr int lanes = query_vectors * width;  ///< queries of a part
  static constexpr int parts = query_tile / lanes;
  static constexpr int row_block = many ? 8 : 4;  ///< rows of s, p, o^T, dq^T in registers
  static constexpr int gradient_rows = 6;         ///< rows of dk and dv in registers
  static constexpr int gradient_vectors = many ? 4 : 2;
  static_assert(query_tile % lanes == 0 && key_tile % row_block == 0 && key_tile % gradient_rows == 0);

  /// Head size with room for whole vectors and whole blocks.
  static constexpr int padded(int head_dim) {
    constexpr int unit = std::max(width, row_block);
    return (head_dim + unit - 1) / unit * unit;
  }
};

/// Everything that the tiles of one call share.
template <class T>
struct Problem {
  HeadRows<const T> q, k, v, o, dout;
  HeadRows<T> out, dq, dk, dv;
  Accumulate<T>* lse = nullptr;              // (heads, queries), written by forward
  const Accumulate<T>* lse_given = nullptr;  // the same, read by backward
  Index lse_stride = 0;
  const int *query_row = nullptr, *key_row = nullptr, *key_begin = nullptr, *key_end = nullptr;
  int head_dim = 0, padded_dim = 0;
};

/// K and V of one head and segment, and where dk and dv are summed (backward): (keys, padded_dim), with room
/// for whole tiles.
template <class Real>
struct KeyPanels {
  Real *k, *v, *dk, *dv;
};

/// Elements c, c + 1, ... of a row, as many as a vector holds; zeros from head_dim on.
template <class T>
[[gnu::always_inline]] inline math::Simd<Accumulate<T>> load_row(const T* row, int c, int head_dim) {
  using V = math::Simd<Accumulate<T>>;
  constexpr int width = V::size();
  if (c + width <= head_dim) return math::load_vector<T>(row + c);
  return V(
      [&](int i) { return c + i < head_dim ? static_cast<Accumulate<T>>(row[c + i]) : Accumulate<T>(0); });
}

/// The inverse: elements from head_dim on are dropped.
template <class T>
[[gnu::always_inline]] inline void store_row(T* row, int c, int head_dim,
                                             const math::Simd<Accumulate<T>>& values) {
  constexpr int width = math::Simd<Accumulate<T>>::size();
  if (c + width <= head_dim) {
    math::store_vector(values, row + c);
    return;
  }
  for (int i = 0; c + i < head_dim; ++i) row[c + i] = static_cast<T>(values[i]);
}

/// Asks for rows that are about to be read: they lie apart, so no hardware stream finds them.
template <class U>
void prefetch_rows(const HeadRows<U>& x, int head, const int* rows, int count) {
  constexpr int line = 64 / sizeof(U);
  for (int i = 0; i < count; ++i) {
    const U* row = x(rows[i], head);
    for (int c = 0; c < x.head_dim; c += line) __builtin_prefetch(row + c, !std::is_const_v<U>, 2);
  }
}

/// Brings rows rows[0 .. count) of one head together, (key_tile, padded_dim), zeros beyond.
template <class T>
void pack_rows(const HeadRows<const T>& x, int head, const int* rows, int count, int padded_dim,
               Accumulate<T>* target) {
  constexpr int width = TileSizes<Accumulate<T>>::width;
  prefetch_rows(x, head, rows, count);
  for (int r = 0; r < count; ++r, target += padded_dim) {
    const T* source = x(rows[r], head);
    for (int c = 0; c < padded_dim; c += width)
      load_row<T>(source, c, x.head_dim).copy_to(target + c, math::simd::element_aligned);
  }
  std::fill_n(target, static_cast<Index>(key_tile - count) * padded_dim, Accumulate<T>(0));
}

/// What forward and backward tiles have in common: which queries, which keys, and who sees whom.
template <class T>
class TileBase {
 public:
  using Real = Accumulate<T>;
  using Sizes = TileSizes<Real>;
  static constexpr int lanes = Sizes::lanes;
  static constexpr int block = Sizes::row_block;
  using V = math::Simd<Real>;
  using Block = math::RegisterBlock<Real, Sizes::row_block, Sizes::query_vectors>;

  TileBase(const Problem<T>& problem, const AttentionSegment& segment, const KeyPanels<Real>& panels,
           int head, int first_query)
      : p_(problem),
        segment_(segment),
        panels_(panels),
        head_(head),
        first_query_(first_query),
        queries_(std::min(query_tile, segment.query_end - first_query)) {}

  int parts() const { return (queries_ + lanes - 1) / lanes; }
  int first_key_tile() const {
    return std::max(0, p_.key_begin[first_query_] - segment_.key_begin) / key_tile;
  }
  int end_key_tile() const {
    const int end = p_.key_end[first_query_ + queries_ - 1] - segment_.key_begin;
    return end <= 0 ? 0 : (end + key_tile - 1) / key_tile;
  }
  [[gnu::noinline]] void load_keys_and_values(int tile) {
    tile_offset_ = static_cast<Index>(tile) * key_tile * p_.padded_dim;
    const int first_key = segment_.key_begin + tile * key_tile;
    for (int part = 0; part < parts(); ++part) {
      const int first = first_query_ + part * lanes, last = first + part_queries(part) - 1;
      const auto within = [&](int key) { return std::clamp(key - first_key, 0, key_tile); };
      auto& s = sight_[part];
      s.begin = within(p_.key_begin[first]) / block * block;
      s.end = (within(p_.key_end[last]) + block - 1) / block * block;
      s.full_begin = p_.key_begin[last] - first_key;
      s.full_end = p_.key_end[first] - first_key;
    }
    first_key_ = first_key;
  }
  bool sees_nothing(int part) const { return sight_[part].begin >= sight_[part].end; }

 protected:
  /// Keys of the tile in hand that a part sees: [begin, end) in whole blocks holds every key that any of its
  /// queries sees; blocks inside [full_begin, full_end) need no mask.
  struct Sight {
    int begin, end, full_begin, full_end;
  };

  int part_queries(int part) const { return std::min(lanes, queries_ - part * lanes); }

  bool needs_mask(const Sight& s, int key) const { return key < s.full_begin || key + block > s.full_end; }

  /// target (block, lanes) = keys (block, d) queries (d, lanes), each row beginning from `start`.
  [[gnu::noinline]] void product(const Real* keys, const Real* queries, const Real* start,
                                 Real* target) const {
    Block sum;
    sum.fill_rows(start);
    // The next keys are not in the nearest cache yet, and eight short rows are no stream to the hardware.
    const Real* next = keys + static_cast<Index>(block) * p_.padded_dim;
    math::multiply_add(sum, p_.head_dim, keys, p_.padded_dim, 1, queries, lanes,
                       [next](Index k) { __builtin_prefetch(next + k * block); });
    sum.store(target, lanes);
  }

  /// Scores (block, lanes) become -inf where the query does not see the key; lanes beyond the last query
  /// repeat it.
  [[gnu::noinline]] void mask(int part, int key, Real* scores) const {
    Real begin[lanes], end[lanes];
    const int first = first_query_ + part * lanes, last = part_queries(part) - 1;
    for (int l = 0; l < lanes; ++l) {
      const int i = first + std::min(l, last);
      begin[l] = static_cast<Real>(std::clamp(p_.key_begin[i] - first_key_ - key, 0, block));
      end[l] = static_cast<Real>(std::clamp(p_.key_end[i] - first_key_ - key, 0, block));
    }
    for (int j = 0; j < lanes; j += Sizes::width) {
      const V from(begin + j, math::simd::element_aligned), to(end + j, math::simd::element_aligned);
      for (int i = 0; i < block; ++i) {
        const V row = static_cast<Real>(i);
        V s(scores + i * lanes + j, math::simd::element_aligned);
        math::simd::where(row < from || row >= to, s) = -std::numeric_limits<Real>::infinity();
        s.copy_to(scores + i * lanes + j, math::simd::element_aligned);
      }
    }
  }

  /// target[c][lane] = factor * row of query `lane` at c, 0 <= c < padded_dim; zeros beyond the last query.
  [[gnu::noinline]] void load_transposed(const HeadRows<const T>& x, int part, Real factor,
                                         Real* target) const {
    const int count = part_queries(part);
    const int* rows = p_.query_row + first_query_ + part * lanes;
    prefetch_rows(x, head_, rows, count);
    for (int l = 0; l < lanes; l += Sizes::width)
      for (int c = 0; c < p_.padded_dim; c += Sizes::width) {
        V values[Sizes::width];
        for (int i = 0; i < Sizes::width; ++i)
          values[i] = l + i < count ? factor * load_row<T>(x(rows[l + i], head_), c, p_.head_dim) : V(0);
        math::transpose<Real>(values);
        for (int i = 0; i < Sizes::width; ++i)
          values[i].copy_to(target + (c + i) * lanes + l, math::simd::element_aligned);
      }
  }

  /// Row of query `lane` at c = source[c][lane] * factor[lane].
  [[gnu::noinline]] void store_transposed(const HeadRows<T>& x, int part, const Real* source,
                                          const Real* factor) const {
    const int count = part_queries(part);
    const int* rows = p_.query_row + first_query_ + part * lanes;
    prefetch_rows(x, head_, rows, count);
    for (int l = 0; l < lanes; l += Sizes::width) {
      const V scale(factor + l, math::simd::element_aligned);
      for (int c = 0; c < p_.padded_dim; c += Sizes::width) {
        V values[Sizes::width];
        for (int i = 0; i < Sizes::width; ++i)
          values[i] = scale * V(source + (c + i) * lanes + l, math::simd::element_aligned);
        math::transpose<Real>(values);
        for (int i = 0; i < Sizes::width && l + i < count; ++i)
          store_row<T>(x(rows[l + i], head_), c, p_.head_dim, values[i]);
      }
    }
  }

  const Problem<T>& p_;
  const AttentionSegment segment_;
  const KeyPanels<Real> panels_;
  const int head_, first_query_, queries_;
  int first_key_ = 0;
  Index tile_offset_ = 0;
  Sight sight_[Sizes::parts];
};

}  // namespace minisp::model::host
