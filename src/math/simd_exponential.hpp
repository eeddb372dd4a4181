// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Host only: vectors as wide as the processor has them, and 2^x on them without a branch.
#pragma once

#include "math/exponential.hpp"

#include <bit>
#include <cstdint>
#include <experimental/simd>
#include <limits>
#include <type_traits>

namespace minisp::math {

namespace simd = std::experimental;

template <class T>
using Simd = simd::native_simd<T>;

/// Vector registers that a kernel may count on.
#if defined(__AVX512F__) || defined(__aarch64__) || defined(__VSX__)
inline constexpr int vector_registers = 32;
#else
inline constexpr int vector_registers = 16;
#endif

/// exp2() of exponential.hpp, on vectors.
template <class T>
[[gnu::always_inline]] inline Simd<T> exp2(const Simd<T>& x) {
  using V = Simd<T>;
  // Unsigned: far below the smallest exponent the sum wraps around, in lanes that become 0 below.
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  using BitsV = simd::rebind_simd_t<Bits, V>;
  constexpr int mantissa = std::numeric_limits<T>::digits - 1;
  // Adding 1.5 * 2^mantissa leaves the nearest integer of x in the low bits.
  constexpr T magic = T(3) * T(Bits(1) << (mantissa - 1));

  const V shifted = x + magic;
  const V r = x - (shifted - magic);
  const V power = detail::Exp2Fraction<T>::at(r) * r + T(1);
  // The integer moves into the exponent field.
  const auto bits = std::bit_cast<BitsV>(power) + (std::bit_cast<BitsV>(shifted) << mantissa);
  V result = std::bit_cast<V>(bits);
  simd::where(x < T(std::numeric_limits<T>::min_exponent), result) = T(0);
  return result;
}

}  // namespace minisp::math
