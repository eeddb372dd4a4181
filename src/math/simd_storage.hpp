// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Host only: vectors of what is computed in, from and to memory that holds what is stored.
#pragma once

#include "math/precision.hpp"
#include "math/simd_exponential.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

namespace minisp::math {

template <class T>
[[gnu::always_inline]] inline Simd<Accumulate<T>> load_vector(const T* p) {
  return Simd<T>(p, simd::element_aligned);
}
template <class T>
[[gnu::always_inline]] inline void store_vector(const Simd<T>& values, T* p) {
  values.copy_to(p, simd::element_aligned);
}

namespace detail {
using Words = simd::rebind_simd_t<std::uint32_t, Simd<float>>;
// Of the compilers that have std::experimental::simd: the library's own narrowing cast warns in GCC 12.
using WordLanes [[gnu::vector_size(sizeof(Words))]] = std::uint32_t;
using HalfLanes [[gnu::vector_size(sizeof(Words) / 2)]] = std::uint16_t;
}  // namespace detail

template <>
[[gnu::always_inline]] inline Simd<float> load_vector<bfloat16>(const bfloat16* p) {
  const detail::Words words([p](int i) { return static_cast<std::uint32_t>(p[i].bits) << 16; });
  return std::bit_cast<Simd<float>>(words);
}
/// Rounds as bfloat16(float) does.
[[gnu::always_inline]] inline void store_vector(const Simd<float>& values, bfloat16* p) {
  using detail::Words;
  Words words = std::bit_cast<Words>(values);
  simd::where((words & Words(0x7fffffffu)) > Words(0x7f800000u), words) =
      (words | Words(0x400000u)) & Words(0xffff0000u);
  words = (words + Words(0x7fffu) + ((words >> 16) & Words(1u))) >> 16;
  const auto halves = __builtin_convertvector(std::bit_cast<detail::WordLanes>(words), detail::HalfLanes);
  std::memcpy(p, &halves, sizeof halves);
}

}  // namespace minisp::math
