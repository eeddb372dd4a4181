// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Host only: vectors of what is computed in, from and to memory that holds what is stored.
#pragma once

#include "math/precision.hpp"
#include "math/simd_exponential.hpp"

#include <bit>
#include <cstdint>

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
}  // namespace detail

template <>
[[gnu::always_inline]] inline Simd<float> load_vector<bfloat16>(const bfloat16* p) {
  const detail::Words words([p](int i) { return static_cast<std::uint32_t>(p[i].bits) << 16; });
  return std::bit_cast<Simd<float>>(words);
}
/// Rounds as bfloat16(float) does.
[[gnu::always_inline]] inline void store_vector(const Simd<float>& values, bfloat16* p) {
  alignas(64) float wide[Simd<float>::size()];
  values.copy_to(wide, simd::vector_aligned);
  for (int i = 0; i < static_cast<int>(Simd<float>::size()); ++i) p[i] = bfloat16(wide[i]);
}

}  // namespace minisp::math
