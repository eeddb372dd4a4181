// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Host engine of attention, backward tile (see attention_algorithm.hpp for what each step computes).
#pragma once

#include "model/attention_host_tile.hpp"

#include <cmath>
#include <numbers>
#include <utility>

namespace minisp::model::host {

template <class T>
class BackwardTile : public TileBase<T> {
  using Base = TileBase<T>;
  using typename Base::Block;
  using typename Base::Real;
  using typename Base::Sight;
  using typename Base::Sizes;
  using V = math::Simd<Real>;
  using Base::block;
  using Base::lanes;
  using Base::p_;
  using Base::panels_;
  using Base::sight_;
  using Base::tile_offset_;
  static constexpr int rows = Sizes::gradient_rows;
  static constexpr Index part_scores = static_cast<Index>(key_tile) * lanes;

 public:
  /// One worker takes all query tiles of a segment, one after the other.
  static constexpr bool accumulates_key_gradients = true;

  static Index scratch_size(int padded_dim) {
    return static_cast<Index>(query_tile) * (5 * padded_dim + 2 + 2 * key_tile);
  }

  BackwardTile(const Problem<T>& problem, const AttentionSegment& segment, const KeyPanels<Real>& panels,
               int head, int first_query, Real* scratch)
      : Base(problem, segment, panels, head, first_query) {
    Real* next = scratch;
    const auto take = [&](Index elements) { return std::exchange(next, next + elements); };
    const Index block_of_rows = static_cast<Index>(query_tile) * problem.padded_dim;
    query_lanes_ = take(block_of_rows);
    dout_lanes_ = take(block_of_rows);
    query_rows_ = take(block_of_rows);
    dout_rows_ = take(block_of_rows);
    query_gradient_ = take(block_of_rows);
    probabilities_ = take(query_tile * key_tile);
    score_gradients_ = take(query_tile * key_tile);
    minus_lse_ = take(query_tile);
    minus_delta_ = take(query_tile);
  }

  void load_queries_and_gradients() {
    const int d = p_.head_dim, padded = p_.padded_dim;
    const Real scale = 1 / std::sqrt(static_cast<Real>(d));
    for (int part = 0; part < this->parts(); ++part) {
      this->load_transposed(p_.q, part, scale * std::numbers::log2e_v<Real>,
                            query_lanes_ + part_offset(part));
      this->load_transposed(p_.dout, part, 1, dout_lanes_ + part_offset(part));
    }
    const Index used = static_cast<Index>(this->parts()) * lanes;
    std::fill_n(query_gradient_, used * padded, Real(0));
    if (padded > d || used > this->queries_) {
      std::fill_n(query_rows_, used * padded, Real(0));
      std::fill_n(dout_rows_, used * padded, Real(0));
    }
    // Lanes beyond the last query and queries that see nothing get p = 2^(s - inf) = 0.
    std::fill_n(minus_lse_, used, -std::numeric_limits<Real>::infinity());
    std::fill_n(minus_delta_, used, Real(0));
    const T* lse = p_.lse_given + this->head_ * p_.lse_stride + this->first_query_;
    for (int i = 0; i < this->queries_; ++i) {
      const int row = p_.query_row[this->first_query_ + i];
      const T *q = p_.q(row, this->head_), *dout = p_.dout(row, this->head_), *o = p_.o(row, this->head_);
      Real delta = 0;
      for (int c = 0; c < d; ++c) {
        query_rows_[i * padded + c] = scale * static_cast<Real>(q[c]);
        dout_rows_[i * padded + c] = static_cast<Real>(dout[c]);
      }
      for (int c = 0; c < d; ++c) delta += static_cast<Real>(dout[c]) * static_cast<Real>(o[c]);
      minus_delta_[i] = -delta;
      const Real value = static_cast<Real>(lse[i]);
      if (std::isfinite(value)) minus_lse_[i] = -std::numbers::log2e_v<Real> * value;
    }
  }

  void recompute_probabilities(int part) {
    const auto sight = sight_[part];
    Real* target = probabilities_ + part * part_scores;
    for (int key = sight.begin; key < sight.end; key += block) {
      Block s;
      s.fill_rows(minus_lse_ + part * lanes);
      math::multiply_add<1, block>(s, p_.head_dim, panels_.k_rows + tile_offset_ + key * p_.padded_dim,
                                   query_lanes_ + part_offset(part), lanes);
      if (this->needs_mask(sight, key)) this->mask(s, part, key);
      for (int i = 0; i < block; ++i)
        for (int j = 0; j < Sizes::query_vectors; ++j)
          math::exp2<Real>(s.v[i][j]).copy_to(target + (key + i) * lanes + j * Sizes::width,
                                              math::simd::element_aligned);
    }
    clear_margins(sight, target);
  }

  void score_gradients(int part) {
    const auto sight = sight_[part];
    const Real* p = probabilities_ + part * part_scores;
    Real* target = score_gradients_ + part * part_scores;
    for (int key = sight.begin; key < sight.end; key += block) {
      Block s;
      s.fill_rows(minus_delta_ + part * lanes);
      math::multiply_add<1, block>(s, p_.head_dim, panels_.v_rows + tile_offset_ + key * p_.padded_dim,
                                   dout_lanes_ + part_offset(part), lanes);
      for (int i = 0; i < block; ++i)
        for (int j = 0; j < Sizes::query_vectors; ++j) {
          const int at = (key + i) * lanes + j * Sizes::width;
          (s.v[i][j] * V(p + at, math::simd::element_aligned))
              .copy_to(target + at, math::simd::element_aligned);
        }
    }
    clear_margins(sight, target);
  }

  void accumulate_query_gradient(int part) {
    const auto sight = sight_[part];
    for (int c = 0; c < p_.padded_dim; c += block) {
      Real* target = query_gradient_ + part_offset(part) + c * lanes;
      Block dq;
      dq.load(target, lanes);
      math::multiply_add<1, block>(dq, sight.end - sight.begin,
                                   panels_.k_columns + tile_offset_ + c * key_tile + sight.begin * block,
                                   score_gradients_ + part * part_scores + sight.begin * lanes, lanes);
      dq.store(target, lanes);
    }
  }

  void accumulate_key_gradients() {
    accumulate_key_gradient(probabilities_, dout_rows_, panels_.dv + tile_offset_);
    accumulate_key_gradient(score_gradients_, query_rows_, panels_.dk + tile_offset_);
  }

  void store_query_gradient() {
    Real factor[lanes];
    std::fill_n(factor, lanes, 1 / std::sqrt(static_cast<Real>(p_.head_dim)));
    for (int part = 0; part < this->parts(); ++part)
      this->store_transposed(p_.dq, part, query_gradient_ + part_offset(part), factor);
  }

 private:
  Index part_offset(int part) const { return static_cast<Index>(part) * lanes * p_.padded_dim; }

  /// dk and dv are taken in blocks of `rows` keys, which may reach past the keys that a part sees: those
  /// count 0.
  void clear_margins(const Sight& sight, Real* scores) const {
    const int before = sight.begin / rows * rows, after = (sight.end + rows - 1) / rows * rows;
    std::fill(scores + before * lanes, scores + sight.begin * lanes, Real(0));
    std::fill(scores + sight.end * lanes, scores + after * lanes, Real(0));
  }

  void accumulate_key_gradient(const Real* scores, const Real* query_side, Real* target) {
    constexpr int chunk = Sizes::gradient_vectors;
    const int vectors = p_.padded_dim / Sizes::width;
    int j = 0;
    for (; j + chunk <= vectors; j += chunk) accumulate_columns<chunk>(scores, query_side, target, j);
    if constexpr (chunk > 2) {
      if (j + 2 <= vectors) {
        accumulate_columns<2>(scores, query_side, target, j);
        j += 2;
      }
    }
    if (j < vectors) accumulate_columns<1>(scores, query_side, target, j);
  }

  template <int Vectors>
  void accumulate_columns(const Real* scores, const Real* query_side, Real* target, int first_vector) {
    const int column = first_vector * Sizes::width, padded = p_.padded_dim;
    for (int key = 0; key < key_tile; key += rows) {
      math::RegisterBlock<Real, rows, Vectors> sum;
      bool loaded = false;
      for (int part = 0; part < this->parts(); ++part) {
        const auto& sight = sight_[part];
        if (this->sees_nothing(part) || key >= sight.end || key + rows <= sight.begin) continue;
        if (!loaded) sum.load(target + key * padded + column, padded);
        loaded = true;
        math::multiply_add<lanes, 1>(sum, lanes, scores + part * part_scores + key * lanes,
                                     query_side + part_offset(part) + column, padded);
      }
      if (loaded) sum.store(target + key * padded + column, padded);
    }
  }

  Real *query_lanes_, *dout_lanes_, *query_rows_, *dout_rows_, *query_gradient_;
  Real *probabilities_, *score_gradients_, *minus_lse_, *minus_delta_;
};

}  // namespace minisp::model::host
