// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Host only: the register-blocked product that the host engine of attention is made of. A block of C stays in
// registers while the reduction runs; B comes in vectors, A in single elements that are broadcast.
#pragma once

#include "math/simd_exponential.hpp"
#include "util/views.hpp"

namespace minisp::math {

/// Rows x Vectors of a matrix in registers.
template <class T, int Rows, int Vectors>
struct RegisterBlock {
  static constexpr int width = Simd<T>::size();
  Simd<T> v[Rows][Vectors];

  [[gnu::always_inline]] void fill(T value) {
    for (int i = 0; i < Rows; ++i)
      for (int j = 0; j < Vectors; ++j) v[i][j] = value;
  }
  /// Every row becomes the row at p.
  [[gnu::always_inline]] void fill_rows(const T* p) {
    for (int j = 0; j < Vectors; ++j) {
      const Simd<T> row(p + j * width, simd::element_aligned);
      for (int i = 0; i < Rows; ++i) v[i][j] = row;
    }
  }
  [[gnu::always_inline]] void load(const T* p, Index stride) {
    for (int i = 0; i < Rows; ++i)
      for (int j = 0; j < Vectors; ++j) v[i][j].copy_from(p + i * stride + j * width, simd::element_aligned);
  }
  [[gnu::always_inline]] void store(T* p, Index stride) const {
    for (int i = 0; i < Rows; ++i)
      for (int j = 0; j < Vectors; ++j) v[i][j].copy_to(p + i * stride + j * width, simd::element_aligned);
  }
  /// Column vector j times factor j.
  [[gnu::always_inline]] void scale_columns(const T* factor) {
    for (int j = 0; j < Vectors; ++j) {
      const Simd<T> f(factor + j * width, simd::element_aligned);
      for (int i = 0; i < Rows; ++i) v[i][j] *= f;
    }
  }
};

struct NoPrefetch {
  void operator()(Index) const {}
};

/// c(i, j) += sum_k a[i*a_row + k*a_k] * b[k*b_stride + j], 0 <= k < depth. prefetch(k) runs once a step,
/// in the shadow of the products.
template <class T, int Rows, int Vectors, class Prefetch = NoPrefetch>
[[gnu::always_inline]] inline void multiply_add(RegisterBlock<T, Rows, Vectors>& c, Index depth, const T* a,
                                                Index a_row, Index a_k, const T* b, Index b_stride,
                                                const Prefetch& prefetch = {}) {
  using V = Simd<T>;
  constexpr int width = V::size();
#pragma GCC unroll 4
  for (Index k = 0; k < depth; ++k) {
    V row[Vectors];
    for (int j = 0; j < Vectors; ++j) row[j].copy_from(b + j * width, simd::element_aligned);
    for (int i = 0; i < Rows; ++i) {
      const V factor(a[i * a_row]);
      for (int j = 0; j < Vectors; ++j) c.v[i][j] += factor * row[j];
    }
    prefetch(k);
    a += a_k;
    b += b_stride;
  }
}

}  // namespace minisp::math
