// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Host only: transposing small blocks in vector registers.
#pragma once

#include "math/simd_exponential.hpp"
#include "util/views.hpp"

#include <bit>
#include <utility>

namespace minisp::math {

namespace detail {

template <class T>
struct PlainVector {
  static constexpr int width = Simd<T>::size();
  typedef T type __attribute__((vector_size(sizeof(T) * width)));
};

/// a0 b0 a1 b1 ... from the lower (Half = 0) or upper (Half = 1) half of a and b.
template <class T, int Half, int... I>
[[gnu::always_inline]] inline Simd<T> interleave(const Simd<T>& a, const Simd<T>& b,
                                                 std::integer_sequence<int, I...>) {
  using Plain = typename PlainVector<T>::type;
  constexpr int width = Simd<T>::size();
  return std::bit_cast<Simd<T>>(__builtin_shufflevector(std::bit_cast<Plain>(a), std::bit_cast<Plain>(b),
                                                        (Half * width / 2 + I / 2 + I % 2 * width)...));
}

}  // namespace detail

/// Rows vectors (a power of two) of one row each become the same elements in column order: element (r, c)
/// moves from place r * width + c to place c * Rows + r. Each round is a perfect shuffle, which rotates the
/// bits of a place by one.
template <class T, int Rows>
[[gnu::always_inline]] inline void transpose(Simd<T> (&x)[Rows]) {
  static_assert((Rows & (Rows - 1)) == 0);
  constexpr auto all = std::make_integer_sequence<int, static_cast<int>(Simd<T>::size())>();
  for (int rows = 1; rows < Rows; rows *= 2) {
    Simd<T> y[Rows];
    for (int i = 0; i < Rows / 2; ++i) {
      y[2 * i] = detail::interleave<T, 0>(x[i], x[i + Rows / 2], all);
      y[2 * i + 1] = detail::interleave<T, 1>(x[i], x[i + Rows / 2], all);
    }
    for (int i = 0; i < Rows; ++i) x[i] = y[i];
  }
}

}  // namespace minisp::math
