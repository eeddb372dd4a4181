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
  using typename Base::Block;
  using typename Base::Real;
  using typename Base::Sizes;
  using V = math::Simd<Real>;
  using Base::block;
  using Base::lanes;
  using Base::p_;
  using Base::panels_;
  using Base::sight_;
  using Base::tile_offset_;

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

  void load_queries() {
    const Real scale = std::numbers::log2e_v<Real> / std::sqrt(static_cast<Real>(p_.head_dim));
    for (int part = 0; part < this->parts(); ++part)
      this->load_transposed(p_.q, part, scale, query_ + part_offset(part));
    const Index used = static_cast<Index>(this->parts()) * lanes;
    std::fill_n(output_, used * p_.padded_dim, Real(0));
    std::fill_n(maximum_, used, -std::numeric_limits<Real>::infinity());
    std::fill_n(sum_, used, Real(0));
  }

  void scores(int part) {
    const auto sight = sight_[part];
    for (auto& m : tile_maximum_) m = -std::numeric_limits<Real>::infinity();
    for (int key = sight.begin; key < sight.end; key += block) {
      Block s;
      s.fill(0);
      math::multiply_add<1, block>(s, p_.head_dim, panels_.k_rows + tile_offset_ + key * p_.padded_dim,
                                   query_ + part_offset(part), lanes);
      if (this->needs_mask(sight, key)) this->mask(s, part, key);
      for (int j = 0; j < Sizes::query_vectors; ++j)
        for (int i = 0; i < block; ++i) tile_maximum_[j] = math::simd::max(tile_maximum_[j], s.v[i][j]);
      s.store(scores_ + key * lanes, lanes);
    }
  }

  void raise_maximum(int part) {
    constexpr Real none = -std::numeric_limits<Real>::infinity();
    raised_ = false;
    for (int j = 0; j < Sizes::query_vectors; ++j) {
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

  void probabilities(int part) {
    const auto sight = sight_[part];
    V sum[Sizes::query_vectors];
    for (int j = 0; j < Sizes::query_vectors; ++j) sum[j] = row_sum_[j];
    for (int key = sight.begin; key < sight.end; ++key)
      for (int j = 0; j < Sizes::query_vectors; ++j) {
        Real* s = scores_ + key * lanes + j * Sizes::width;
        const V p = math::exp2<Real>(V(s, math::simd::element_aligned) - reference_[j]);
        p.copy_to(s, math::simd::element_aligned);
        sum[j] += p;
      }
    for (int j = 0; j < Sizes::query_vectors; ++j)
      sum[j].copy_to(sum_ + part * lanes + j * Sizes::width, math::simd::element_aligned);
  }

  void accumulate_output(int part) {
    const auto sight = sight_[part];
    for (int c = 0; c < p_.padded_dim; c += block) {
      Real* target = output_ + part_offset(part) + c * lanes;
      Block o;
      o.load(target, lanes);
      if (raised_) o.scale_columns(rescale_);
      math::multiply_add<1, block>(o, sight.end - sight.begin,
                                   panels_.v_columns + tile_offset_ + c * key_tile + sight.begin * block,
                                   scores_ + sight.begin * lanes, lanes);
      o.store(target, lanes);
    }
  }

  void store_output() {
    Real inverse[query_tile];
    T* lse = p_.lse + this->head_ * p_.lse_stride + this->first_query_;
    for (int i = 0; i < this->queries_; ++i) {
      inverse[i] = sum_[i] > 0 ? 1 / sum_[i] : Real(0);
      lse[i] = static_cast<T>(std::numbers::ln2_v<Real> * (maximum_[i] + std::log2(sum_[i])));
    }
    for (int part = 0; part < this->parts(); ++part)
      this->store_transposed(p_.out, part, output_ + part_offset(part), inverse + part * lanes);
  }

 private:
  Index part_offset(int part) const { return static_cast<Index>(part) * lanes * p_.padded_dim; }

  Real *query_, *output_, *scores_, *maximum_, *sum_;
  V tile_maximum_[Sizes::query_vectors], reference_[Sizes::query_vectors], row_sum_[Sizes::query_vectors];
  Real rescale_[lanes];
  bool raised_ = false;
};

}  // namespace minisp::model::host
