// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Device engine of attention: one tile is one team's work, its rows lie in team scratch. Rows are the team's
// threads, columns its vector lanes. Runs on every Kokkos backend.
#pragma once

#include "math/precision.hpp"
#include "model/attention_segments.hpp"
#include "util/kokkos_compat.hpp"

namespace minisp::model::device {

/// Everything that the tiles of one call share.
template <class T>
struct Problem {
  HeadRows<const T> q, k, v, o, dout;
  HeadRows<T> out, dq, dk, dv;
  Matrix<Accumulate<T>> lse;
  Matrix<const Accumulate<T>> lse_given;
  Vector<int> query_row, key_row, key_begin, key_end;  // as in AttentionMap
  Vector<int> query_begin, query_end;                  // queries that see some key of key tile t
  int queries = 0, keys = 0, head_dim = 0, group = 1;
  int tile = 0;  // rows of a tile, queries and keys alike
};

template <class Real>
struct Operand {
  const Real* data;
  int row, column;  // strides
  KOKKOS_INLINE_FUNCTION Real operator()(int i, int j) const { return data[i * row + j * column]; }
};

template <class T>
class Tile {
 public:
  using Real = Accumulate<T>;
  /// The host engine's worker owns dk and dv; here several teams see the same keys.
  static constexpr bool accumulates_key_gradients = false;

  /// Elements of team scratch: six sets of rows, two of scores, three values a row.
  static Index scratch_size(int tile, int head_dim) {
    return static_cast<Index>(tile) * (6 * (head_dim + 1) + 2 * (tile + 1) + 3);
  }

  KOKKOS_INLINE_FUNCTION Tile(const Problem<T>& problem, const TeamMember& member, Real* scratch, int head,
                              int kv_head, int tile)
      : p_(problem),
        member_(member),
        head_(head),
        kv_head_(kv_head),
        own_(tile),
        d_(problem.head_dim),
        stride_(problem.head_dim + 1),  // odd: lanes that walk down a column meet different banks
        score_stride_(problem.tile + 1) {
    const int rows = problem.tile * stride_, scores = problem.tile * score_stride_;
    q_ = scratch;
    k_ = q_ + rows;
    v_ = k_ + rows;
    dout_ = v_ + rows;
    first_sum_ = dout_ + rows;
    second_sum_ = first_sum_ + rows;
    p_scores_ = second_sum_ + rows;
    ds_scores_ = p_scores_ + scores;
    maximum_ = ds_scores_ + scores;
    row_sum_ = maximum_ + problem.tile;
    rescale_ = row_sum_ + problem.tile;
  }

  // Forward and the sweep over keys: the tile's own rows are queries.
  KOKKOS_INLINE_FUNCTION int parts() const { return 1; }
  KOKKOS_INLINE_FUNCTION bool sees_nothing(int) const { return false; }
  KOKKOS_INLINE_FUNCTION int first_key_tile() const { return p_.key_begin(own_ * p_.tile) / p_.tile; }
  KOKKOS_INLINE_FUNCTION int end_key_tile() const {
    const int next = (own_ + 1) * p_.tile, last = (next < p_.queries ? next : p_.queries) - 1;
    return (p_.key_end(last) + p_.tile - 1) / p_.tile;
  }
  // The sweep over queries: its own rows are keys. Tiles are counted through all heads of the group.
  KOKKOS_INLINE_FUNCTION int own_key_tile() const { return own_; }
  KOKKOS_INLINE_FUNCTION int first_query_tile() const { return 0; }
  KOKKOS_INLINE_FUNCTION int end_query_tile() const { return p_.group * query_tiles_of_own_keys(); }

  KOKKOS_INLINE_FUNCTION void load_keys_and_values(int tile) {
    first_key_ = tile * p_.tile;
    key_count_ = count(first_key_, p_.keys);
    load(p_.k, p_.key_row, kv_head_, first_key_, key_count_, Real(1), k_);
    load(p_.v, p_.key_row, kv_head_, first_key_, key_count_, Real(1), v_);
    member_.team_barrier();
  }

  KOKKOS_INLINE_FUNCTION void load_queries() {
    take_queries(own_);
    load(p_.q, p_.query_row, head_, first_query_, query_count_, scale(), q_);
    clear(first_sum_);
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member_, p_.tile), [&](const int i) {
      maximum_[i] = -infinity();
      row_sum_[i] = 0;
    });
    member_.team_barrier();
  }

  KOKKOS_INLINE_FUNCTION void scores(int) {
    product(query_count_, key_count_, d_, {q_, stride_, 1}, {k_, 1, stride_}, p_scores_, score_stride_,
            [&](int i, int j, Real, Real sum) { return sees(i, j) ? sum : -infinity(); });
  }

  KOKKOS_INLINE_FUNCTION void raise_maximum(int) {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member_, query_count_), [&](const int i) {
      Real largest;
      Kokkos::parallel_reduce(
          Kokkos::ThreadVectorRange(member_, key_count_),
          [&](const int j, Real& value) {
            const Real s = p_scores_[i * score_stride_ + j];
            if (s > value) value = s;
          },
          Kokkos::Max<Real>(largest));
      Kokkos::single(Kokkos::PerThread(member_), [&]() {
        const Real before = maximum_[i], now = before > largest ? before : largest;
        // A query that has seen no key yet: a maximum of lowest() gives exp(-inf) = 0 for what is masked.
        rescale_[i] = before == -infinity() ? Real(0) : compat::math::exp(before - now);
        maximum_[i] = now;
        row_sum_[i] *= rescale_[i];
      });
    });
    member_.team_barrier();
  }

  KOKKOS_INLINE_FUNCTION void probabilities(int) {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member_, query_count_), [&](const int i) {
      Real sum = 0;
      const Real reference = maximum_[i];
      Kokkos::parallel_reduce(
          Kokkos::ThreadVectorRange(member_, key_count_),
          [&](const int j, Real& value) {
            Real& s = p_scores_[i * score_stride_ + j];
            s = s == -infinity() ? Real(0) : compat::math::exp(s - reference);
            value += s;
          },
          sum);
      Kokkos::single(Kokkos::PerThread(member_), [&]() { row_sum_[i] += sum; });
    });
    member_.team_barrier();
  }

  KOKKOS_INLINE_FUNCTION void accumulate_output(int) {
    product(query_count_, d_, key_count_, {p_scores_, score_stride_, 1}, {v_, stride_, 1}, first_sum_,
            stride_, [&](int i, int, Real before, Real sum) { return rescale_[i] * before + sum; });
  }

  KOKKOS_INLINE_FUNCTION void store_output() {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member_, query_count_), [&](const int i) {
      const Real sum = row_sum_[i], factor = sum > 0 ? 1 / sum : Real(0);
      T* target = p_.out(p_.query_row(first_query_ + i), head_);
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(member_, d_), [&](const int c) {
        target[c] = static_cast<T>(first_sum_[i * stride_ + c] * factor);
      });
      Kokkos::single(Kokkos::PerThread(member_), [&]() {
        p_.lse(head_, first_query_ + i) = sum > 0 ? maximum_[i] + compat::math::log(sum) : -infinity();
      });
    });
  }

  KOKKOS_INLINE_FUNCTION void load_queries_and_gradients() {
    take_queries(own_);
    load_query_side();
    clear(first_sum_);
    member_.team_barrier();
  }

  /// Tile `index` of those that see the own keys, counted through the heads of the group.
  KOKKOS_INLINE_FUNCTION void load_queries_and_gradients(int index) {
    if (index == 0) {
      clear(first_sum_);
      clear(second_sum_);
    }
    const int tiles = query_tiles_of_own_keys();
    head_ = kv_head_ * p_.group + index / tiles;
    take_queries(p_.query_begin(own_) / p_.tile + index % tiles);
    load_query_side();
    member_.team_barrier();
  }

  KOKKOS_INLINE_FUNCTION void recompute_probabilities(int) {
    product(query_count_, key_count_, d_, {q_, stride_, 1}, {k_, 1, stride_}, p_scores_, score_stride_,
            [&](int i, int j, Real, Real sum) {
              return sees(i, j) ? compat::math::exp(sum - maximum_[i]) : Real(0);
            });
  }

  KOKKOS_INLINE_FUNCTION void score_gradients(int) {
    product(
        query_count_, key_count_, d_, {dout_, stride_, 1}, {v_, 1, stride_}, ds_scores_, score_stride_,
        [&](int i, int j, Real, Real sum) { return p_scores_[i * score_stride_ + j] * (sum - row_sum_[i]); });
  }

  KOKKOS_INLINE_FUNCTION void accumulate_query_gradient(int) {
    product(query_count_, d_, key_count_, {ds_scores_, score_stride_, 1}, {k_, stride_, 1}, first_sum_,
            stride_, [&](int, int, Real before, Real sum) { return before + sum; });
  }

  KOKKOS_INLINE_FUNCTION void accumulate_key_gradients() {
    product(key_count_, d_, query_count_, {ds_scores_, 1, score_stride_}, {q_, stride_, 1}, first_sum_,
            stride_, [&](int, int, Real before, Real sum) { return before + sum; });
    product(key_count_, d_, query_count_, {p_scores_, 1, score_stride_}, {dout_, stride_, 1}, second_sum_,
            stride_, [&](int, int, Real before, Real sum) { return before + sum; });
  }

  KOKKOS_INLINE_FUNCTION void store_query_gradient() {
    store(p_.dq, p_.query_row, head_, first_query_, query_count_, scale(), first_sum_);
  }

  KOKKOS_INLINE_FUNCTION void store_key_gradients() {
    if (end_query_tile() == 0) {
      clear(first_sum_);
      clear(second_sum_);
      member_.team_barrier();
    }
    // q was scaled on loading, so the sum of ds q is dk already.
    store(p_.dk, p_.key_row, kv_head_, first_key_, key_count_, Real(1), first_sum_);
    store(p_.dv, p_.key_row, kv_head_, first_key_, key_count_, Real(1), second_sum_);
  }

 private:
  KOKKOS_INLINE_FUNCTION static constexpr Real infinity() { return static_cast<Real>(__builtin_huge_val()); }
  KOKKOS_INLINE_FUNCTION Real scale() const { return 1 / compat::math::sqrt(static_cast<Real>(d_)); }
  KOKKOS_INLINE_FUNCTION int count(int first, int all) const {
    const int left = all - first;
    return left < p_.tile ? left : p_.tile;
  }
  KOKKOS_INLINE_FUNCTION int query_tiles_of_own_keys() const {
    const int begin = p_.query_begin(own_), end = p_.query_end(own_);
    return begin >= end ? 0 : (end + p_.tile - 1) / p_.tile - begin / p_.tile;
  }
  KOKKOS_INLINE_FUNCTION void take_queries(int tile) {
    first_query_ = tile * p_.tile;
    query_count_ = count(first_query_, p_.queries);
  }
  KOKKOS_INLINE_FUNCTION bool sees(int i, int j) const {
    const int query = first_query_ + i, key = first_key_ + j;
    return p_.key_begin(query) <= key && key < p_.key_end(query);
  }

  /// q, do, lse (into maximum_) and delta = do . o (into row_sum_) of the queries in hand.
  KOKKOS_INLINE_FUNCTION void load_query_side() {
    load(p_.q, p_.query_row, head_, first_query_, query_count_, scale(), q_);
    load(p_.dout, p_.query_row, head_, first_query_, query_count_, Real(1), dout_);
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member_, query_count_), [&](const int i) {
      const int row = p_.query_row(first_query_ + i);
      const T *dout = p_.dout(row, head_), *o = p_.o(row, head_);
      Real delta = 0;
      Kokkos::parallel_reduce(
          Kokkos::ThreadVectorRange(member_, d_),
          [&](const int c, Real& sum) { sum += static_cast<Real>(dout[c]) * static_cast<Real>(o[c]); },
          delta);
      Kokkos::single(Kokkos::PerThread(member_), [&]() {
        maximum_[i] = p_.lse_given(head_, first_query_ + i);
        row_sum_[i] = delta;
      });
    });
  }

  KOKKOS_INLINE_FUNCTION void load(const HeadRows<const T>& x, const Vector<int>& rows, int head, int first,
                                   int n, Real factor, Real* target) const {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member_, n), [&](const int i) {
      const T* source = x(rows(first + i), head);
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(member_, d_), [&](const int c) {
        target[i * stride_ + c] = factor * static_cast<Real>(source[c]);
      });
    });
  }

  KOKKOS_INLINE_FUNCTION void store(const HeadRows<T>& x, const Vector<int>& rows, int head, int first, int n,
                                    Real factor, const Real* source) const {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member_, n), [&](const int i) {
      T* target = x(rows(first + i), head);
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(member_, d_), [&](const int c) {
        target[c] = static_cast<T>(factor * source[i * stride_ + c]);
      });
    });
  }

  KOKKOS_INLINE_FUNCTION void clear(Real* rows) const {
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member_, p_.tile * stride_),
                         [&](const int i) { rows[i] = 0; });
  }

  /// c(i, j) = finish(i, j, c(i, j), sum_k a(i, k) b(k, j)), then a barrier.
  template <class Finish>
  KOKKOS_INLINE_FUNCTION void product(int rows, int columns, int depth, const Operand<Real>& a,
                                      const Operand<Real>& b, Real* c, int c_stride,
                                      const Finish& finish) const {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member_, rows), [&](const int i) {
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(member_, columns), [&](const int j) {
        Real sum = 0;
        for (int k = 0; k < depth; ++k) sum += a(i, k) * b(k, j);
        Real& target = c[i * c_stride + j];
        target = finish(i, j, target, sum);
      });
    });
    member_.team_barrier();
  }

  const Problem<T>& p_;
  const TeamMember& member_;
  int head_, kv_head_, own_, d_, stride_, score_stride_;
  int first_query_ = 0, query_count_ = 0, first_key_ = 0, key_count_ = 0;
  Real *q_, *k_, *v_, *dout_, *first_sum_, *second_sum_, *p_scores_, *ds_scores_, *maximum_, *row_sum_,
      *rescale_;
};

}  // namespace minisp::model::device
