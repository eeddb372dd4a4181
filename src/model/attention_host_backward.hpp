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
  using Base::block;
  using Base::lanes;
  using Base::p_;
  using Base::panels_;
  using Base::sight_;
  using Base::tile_offset_;
  using typename Base::Block;
  using typename Base::Real;
  using typename Base::Sight;
  using typename Base::Sizes;
  using typename Base::V;
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

  [[gnu::noinline]] void load_queries_and_gradients() {
    const Real scale = 1 / std::sqrt(static_cast<Real>(p_.head_dim));
    for (int part = 0; part < this->parts(); ++part) {
      this->load_transposed(p_.q, part, scale * std::numbers::log2e_v<Real>,
                            query_lanes_ + part_offset(part));
      this->load_transposed(p_.dout, part, 1, dout_lanes_ + part_offset(part));
    }
    const Index used = static_cast<Index>(this->parts()) * lanes;
    std::fill_n(query_gradient_, used * p_.padded_dim, Real(0));
    std::fill(query_rows_ + this->queries_ * p_.padded_dim, query_rows_ + used * p_.padded_dim, Real(0));
    std::fill(dout_rows_ + this->queries_ * p_.padded_dim, dout_rows_ + used * p_.padded_dim, Real(0));
    // Lanes beyond the last query and queries that see nothing get p = 2^(s - inf) = 0.
    std::fill_n(minus_lse_, used, -std::numeric_limits<Real>::infinity());
    std::fill_n(minus_delta_, used, Real(0));
    const Real* lse = p_.lse_given + this->head_ * p_.lse_stride + this->first_query_;
    prefetch_rows(p_.o, this->head_, p_.query_row + this->first_query_, this->queries_);
    for (int i = 0; i < this->queries_; ++i) {
      minus_delta_[i] = -load_rows_of_query(i, scale);
      if (std::isfinite(lse[i])) minus_lse_[i] = -std::numbers::log2e_v<Real> * lse[i];
    }
  }

  [[gnu::noinline]] void recompute_probabilities(int part) {
    const auto sight = sight_[part];
    Real* scores = probabilities_ + part * part_scores;
    for (int key = sight.begin; key < sight.end; key += block) {
      Real* s = scores + key * lanes;
      this->product(panels_.k + tile_offset_ + key * p_.padded_dim, query_lanes_ + part_offset(part),
                    minus_lse_ + part * lanes, s);
      if (this->needs_mask(sight, key)) this->mask(part, key, s);
      for (int i = 0; i < block * lanes; i += Sizes::width)
        math::exp2<Real>(V(s + i, math::simd::element_aligned)).copy_to(s + i, math::simd::element_aligned);
    }
    clear_margins(sight, scores);
  }

  [[gnu::noinline]] void score_gradients(int part) {
    const auto sight = sight_[part];
    const Real* probabilities = probabilities_ + part * part_scores;
    Real* gradients = score_gradients_ + part * part_scores;
    for (int key = sight.begin; key < sight.end; key += block) {
      const Real* p = probabilities + key * lanes;
      Real* ds = gradients + key * lanes;
      this->product(panels_.v + tile_offset_ + key * p_.padded_dim, dout_lanes_ + part_offset(part),
                    minus_delta_ + part * lanes, ds);
      for (int i = 0; i < block * lanes; i += Sizes::width)
        (V(p + i, math::simd::element_aligned) * V(ds + i, math::simd::element_aligned))
            .copy_to(ds + i, math::simd::element_aligned);
    }
    clear_margins(sight, gradients);
  }

  [[gnu::noinline]] void accumulate_query_gradient(int part) {
    const auto sight = sight_[part];
    for (int c = 0; c < p_.padded_dim; c += block) {
      Real* target = query_gradient_ + part_offset(part) + c * lanes;
      Block dq;
      dq.load(target, lanes);
      math::multiply_add(dq, sight.end - sight.begin,
                         panels_.k + tile_offset_ + sight.begin * p_.padded_dim + c, 1, p_.padded_dim,
                         score_gradients_ + part * part_scores + sight.begin * lanes, lanes);
      dq.store(target, lanes);
    }
  }

  void accumulate_key_gradients() {
    accumulate_key_gradient(probabilities_, dout_rows_, panels_.dv + tile_offset_);
    accumulate_key_gradient(score_gradients_, query_rows_, panels_.dk + tile_offset_);
  }

  [[gnu::noinline]] void store_query_gradient() {
    Real factor[lanes];
    std::fill_n(factor, lanes, 1 / std::sqrt(static_cast<Real>(p_.head_dim)));
    for (int part = 0; part < this->parts(); ++part)
      this->store_transposed(p_.dq, part, query_gradient_ + part_offset(part), factor);
  }

 private:
  Index part_offset(int part) const { return static_cast<Index>(part) * lanes * p_.padded_dim; }

  /// q (scaled) and do of query i as rows; returns delta = do . o.
  Real load_rows_of_query(int i, Real scale) {
    const int row = p_.query_row[this->first_query_ + i], d = p_.head_dim;
    const T *q = p_.q(row, this->head_), *dout = p_.dout(row, this->head_), *o = p_.o(row, this->head_);
    const Index at = static_cast<Index>(i) * p_.padded_dim;
    V delta = 0;
    for (int c = 0; c < p_.padded_dim; c += Sizes::width) {
      const V gradient = load_row<T>(dout, c, d);
      delta += gradient * load_row<T>(o, c, d);
      (scale * load_row<T>(q, c, d)).copy_to(query_rows_ + at + c, math::simd::element_aligned);
      gradient.copy_to(dout_rows_ + at + c, math::simd::element_aligned);
    }
    return math::simd::reduce(delta);
  }

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
      // Runs of parts that see some of these keys, in one go each; there is hardly ever more than one.
      for (int first = 0, end; first < this->parts(); first = end + 1) {
        for (end = first; end < this->parts() && sees_some(end, key);) ++end;
        if (first < end)
          accumulate_block<Vectors>(end - first, scores + first * part_scores + key * lanes,
                                    query_side + part_offset(first) + column, padded,
                                    target + key * padded + column);
      }
    }
  }

  bool sees_some(int part, int key) const {
    const auto& sight = sight_[part];
    return sight.begin < sight.end && key < sight.end && key + rows > sight.begin;
  }

  /// target (rows, Vectors) += scores (rows, queries) times query side (queries, Vectors).
  template <int Vectors>
  [[gnu::noinline]] static void accumulate_block(int parts, const Real* scores, const Real* query_side,
                                                 Index stride, Real* target) {
    math::RegisterBlock<Real, rows, Vectors> sum;
    sum.load(target, stride);
    for (int part = 0; part < parts; ++part, scores += part_scores, query_side += lanes * stride)
      math::multiply_add(sum, lanes, scores, lanes, 1, query_side, stride);
    sum.store(target, stride);
  }

  Real *query_lanes_, *dout_lanes_, *query_rows_, *dout_rows_, *query_gradient_;
  Real *probabilities_, *score_gradients_, *minus_lse_, *minus_delta_;
};

}  // namespace minisp::model::host
