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
// The left operand is read element by element, the right one in vectors. K and V are brought into panels of
// row_block rows (first and third product) or columns (second and fourth) once for a head.
#pragma once

#include "math/precision.hpp"
#include "math/simd_product.hpp"
#include "model/attention_segments.hpp"

#include <algorithm>
#include <limits>

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
  T* lse = nullptr;              // (heads, queries), written by forward
  const T* lse_given = nullptr;  // the same, read by backward
  Index lse_stride = 0;
  const int *query_row = nullptr, *key_row = nullptr, *key_begin = nullptr, *key_end = nullptr;
  int head_dim = 0, padded_dim = 0;
};

/// K and V of one head and segment as the products read them, and where dk and dv are summed; each a run of
/// tiles of key_tile * padded_dim elements.
template <class Real>
struct KeyPanels {
  Real *k_rows, *k_columns, *v_rows, *v_columns, *dk, *dv;
};

/// Rows [0, key_tile) of a tile in blocks of row_block: element (r, c) at [r / block][c][r % block].
template <class Real>
Index row_panel_offset(int row, int padded_dim) {
  constexpr int block = TileSizes<Real>::row_block;
  return static_cast<Index>(row / block) * block * padded_dim + row % block;
}

/// Fills row panels and column panels (either may be null) of one tile from rows first .. first + count of
/// the key list, zeros beyond.
template <class T>
void pack_keys(const HeadRows<const T>& x, int head, const int* rows, int count, int head_dim, int padded_dim,
               Accumulate<T>* row_panels, Accumulate<T>* column_panels) {
  using Real = Accumulate<T>;
  constexpr int block = TileSizes<Real>::row_block;
  const Index tile = static_cast<Index>(key_tile) * padded_dim;
  if (count < key_tile || padded_dim > head_dim) {
    if (row_panels) std::fill_n(row_panels, tile, Real(0));
    if (column_panels) std::fill_n(column_panels, tile, Real(0));
  }
  for (int r = 0; r < count; ++r) {
    const T* source = x(rows[r], head);
    if (row_panels) {
      Real* target = row_panels + row_panel_offset<Real>(r, padded_dim);
      for (int c = 0; c < head_dim; ++c) target[c * block] = static_cast<Real>(source[c]);
    }
    if (column_panels)
      for (int c = 0; c < head_dim; ++c)
        column_panels[(static_cast<Index>(c / block) * key_tile + r) * block + c % block] =
            static_cast<Real>(source[c]);
  }
}

/// What forward and backward tiles have in common: which queries, which keys, and who sees whom.
template <class T>
class TileBase {
 public:
  using Real = Accumulate<T>;
  using Sizes = TileSizes<Real>;
  static constexpr int lanes = Sizes::lanes;
  static constexpr int block = Sizes::row_block;
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
  void load_keys_and_values(int tile) {
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

  /// -inf where the query does not see the key; lanes beyond the last query repeat it.
  [[gnu::noinline]] void mask(Block& scores, int part, int key) const {
    alignas(64) Real begin[lanes], end[lanes];
    const int first = first_query_ + part * lanes, last = part_queries(part) - 1;
    for (int l = 0; l < lanes; ++l) {
      const int i = first + std::min(l, last);
      begin[l] = static_cast<Real>(std::clamp(p_.key_begin[i] - first_key_ - key, 0, block));
      end[l] = static_cast<Real>(std::clamp(p_.key_end[i] - first_key_ - key, 0, block));
    }
    constexpr Real hidden = -std::numeric_limits<Real>::infinity();
    for (int j = 0; j < Sizes::query_vectors; ++j) {
      const math::Simd<Real> from(begin + j * Sizes::width, math::simd::element_aligned);
      const math::Simd<Real> to(end + j * Sizes::width, math::simd::element_aligned);
      for (int i = 0; i < block; ++i) {
        const Real row = static_cast<Real>(i);
        math::simd::where(row < from || row >= to, scores.v[i][j]) = hidden;
      }
    }
  }

  /// target[c][lane] = factor * row of query `lane` at c; zeros beyond the last query.
  void load_transposed(const HeadRows<const T>& x, int part, Real factor, Real* target) const {
    const int count = part_queries(part);
    if (count < lanes) std::fill_n(target, static_cast<Index>(p_.head_dim) * lanes, Real(0));
    const int* rows = p_.query_row + first_query_ + part * lanes;
    for (int l = 0; l < count; ++l) {
      const T* source = x(rows[l], head_);
      for (int c = 0; c < p_.head_dim; ++c) target[c * lanes + l] = factor * static_cast<Real>(source[c]);
    }
  }

  /// Row of query `lane` at c = source[c][lane] * factor[lane].
  void store_transposed(const HeadRows<T>& x, int part, const Real* source, const Real* factor) const {
    const int count = part_queries(part);
    const int* rows = p_.query_row + first_query_ + part * lanes;
    for (int l = 0; l < count; ++l) {
      T* target = x(rows[l], head_);
      for (int c = 0; c < p_.head_dim; ++c) target[c] = static_cast<T>(source[c * lanes + l] * factor[l]);
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
