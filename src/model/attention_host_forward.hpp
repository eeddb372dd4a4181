// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Host engine of attention, forward tile (see attention_algorithm.hpp for what each step computes).
#pragma once

#include "model/attention_host_tile.hpp"

#include <cmath>
#include <numbers>

namespace minisp::model::host {

template <class T>
class ForwardTile : public TileBase<T> {
  using Base = TileBase<T>;
  using Base::block;
  using Base::lanes;
  using Base::p_;
  using Base::panels_;
  using Base::sight_;
  using Base::tile_offset_;
  using typename Base::Block;
  using typename Base::Real;
  using typename Base::Sizes;
  using typename Base::V;
  static constexpr int vectors = Sizes::query_vectors;

 public:
  /// Elements of scratch that a tile needs.
  static Index scratch_size(int padded_dim) {
    return static_cast<Index>(query_tile) * (2 * padded_dim + 2) + static_cast<Index>(key_tile) * lanes;
  }

  ForwardTile(const Problem<T>& problem, const AttentionSegment& segment, const KeyPanels<Real>& panels,
              int head, int first_query, Real* scratch)
      : Base(problem, segment, panels, head, first_query),
        query_(scratch),
        output_(query_ + query_tile * problem.padded_dim),
        scores_(output_ + query_tile * problem.padded_dim),
        maximum_(scores_ + key_tile * lanes),
        sum_(maximum_ + query_tile) {}

  [[gnu::noinline]] void load_queries() {
    const Real scale = std::numbers::log2e_v<Real> / std::sqrt(static_cast<Real>(p_.head_dim));
    for (int part = 0; part < this->parts(); ++part)
      this->load_transposed(p_.q, part, scale, query_ + part_offset(part));
    const Index used = static_cast<Index>(this->parts()) * lanes;
    std::fill_n(output_, used * p_.padded_dim, Real(0));
    std::fill_n(maximum_, used, -std::numeric_limits<Real>::infinity());
    std::fill_n(sum_, used, Real(0));
  }

  void scores(int part) {
    static constexpr Real zeros[lanes] = {};
    const auto sight = sight_[part];
    V maximum[vectors];
    for (auto& m : maximum) m = -std::numeric_limits<Real>::infinity();
    for (int key = sight.begin; key < sight.end; key += block) {
      Real* s = scores_ + key * lanes;
      this->product(panels_.k + tile_offset_ + key * p_.padded_dim, query_ + part_offset(part), zeros, s);
      if (this->needs_mask(sight, key)) this->mask(part, key, s);
      for (int i = 0; i < block; ++i)
        for (int j = 0; j < vectors; ++j)
          maximum[j] =
              math::simd::max(maximum[j], V(s + i * lanes + j * Sizes::width, math::simd::element_aligned));
    }
    for (int j = 0; j < vectors; ++j) tile_maximum_[j] = maximum[j];
  }

  void raise_maximum(int part) {
    constexpr Real none = -std::numeric_limits<Real>::infinity();
    raised_ = false;
    for (int j = 0; j < vectors; ++j) {
      const int at = part * lanes + j * Sizes::width;
      const V before(maximum_ + at, math::simd::element_aligned);
      const V now = math::simd::max(before, tile_maximum_[j]);
      raised_ = raised_ || math::simd::any_of(now > before);
      now.copy_to(maximum_ + at, math::simd::element_aligned);
      // A query that has seen no key yet: any finite reference gives 2^(-inf) = 0.
      reference_[j] = now;
      math::simd::where(now == none, reference_[j]) = Real(0);
      const V factor = math::exp2<Real>(before - reference_[j]);
      factor.copy_to(rescale_ + j * Sizes::width, math::simd::element_aligned);
      row_sum_[j] = V(sum_ + at, math::simd::element_aligned) * factor;
    }
  }

  [[gnu::noinline]] void probabilities(int part) {
    const auto sight = sight_[part];
    V sum[vectors], reference[vectors];
    for (int j = 0; j < vectors; ++j) sum[j] = row_sum_[j], reference[j] = reference_[j];
    for (int key = sight.begin; key < sight.end; ++key)
      for (int j = 0; j < vectors; ++j) {
        Real* s = scores_ + key * lanes + j * Sizes::width;
        const V p = math::exp2<Real>(V(s, math::simd::element_aligned) - reference[j]);
        p.copy_to(s, math::simd::element_aligned);
        sum[j] += p;
      }
    for (int j = 0; j < vectors; ++j)
      sum[j].copy_to(sum_ + part * lanes + j * Sizes::width, math::simd::element_aligned);
  }

  [[gnu::noinline]] void accumulate_output(int part) {
    const auto sight = sight_[part];
    for (int c = 0; c < p_.padded_dim; c += block) {
      Real* target = output_ + part_offset(part) + c * lanes;
      Block o;
      o.load(target, lanes);
      if (raised_) o.scale_columns(rescale_);
      math::multiply_add(o, sight.end - sight.begin,
                         panels_.v + tile_offset_ + sight.begin * p_.padded_dim + c, 1, p_.padded_dim,
                         scores_ + sight.begin * lanes, lanes);
      o.store(target, lanes);
    }
  }

  [[gnu::noinline]] void store_output() {
    Real inverse[query_tile];
    Real* lse = p_.lse + this->head_ * p_.lse_stride + this->first_query_;
    for (int i = 0; i < this->queries_; ++i) {
      inverse[i] = sum_[i] > 0 ? 1 / sum_[i] : Real(0);
      lse[i] = std::numbers::ln2_v<Real> * (maximum_[i] + std::log2(sum_[i]));
    }
    for (int part = 0; part < this->parts(); ++part)
      this->store_transposed(p_.out, part, output_ + part_offset(part), inverse + part * lanes);
  }

 private:
  Index part_offset(int part) const { return static_cast<Index>(part) * lanes * p_.padded_dim; }

  Real *query_, *output_, *scores_, *maximum_, *sum_;
  V tile_maximum_[vectors], reference_[vectors], row_sum_[vectors];
  Real rescale_[lanes];
  bool raised_ = false;
};

}  // namespace minisp::model::host
