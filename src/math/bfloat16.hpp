// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// bfloat16: the upper half of an fp32, 8 bits of precision and the range of fp32. A type to store in, not to
// compute in: it has no arithmetic, every value is converted to fp32 first. (Kokkos' own bhalf_t came after
// the oldest Kokkos that this builds with, and is an emulation of 32 bits on hosts.)
#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>

namespace minisp {

struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;  // as float: not initialised
  /// Round to nearest, ties to even; what is beyond the largest number becomes infinite, NaN stays NaN.
  KOKKOS_INLINE_FUNCTION explicit bfloat16(float x) {
    std::uint32_t word;
    std::memcpy(&word, &x, sizeof word);
    // Rounding could turn a NaN into infinity: made quiet and short before, it passes unchanged. (One choice
    // ahead of arithmetic in 32 bits and one narrowing at the end vectorise best.)
    if ((word & 0x7fffffffu) > 0x7f800000u) word = (word | 0x400000u) & 0xffff0000u;
    bits = static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  KOKKOS_INLINE_FUNCTION explicit bfloat16(double x) : bfloat16(static_cast<float>(x)) {}
  KOKKOS_INLINE_FUNCTION explicit bfloat16(int x) : bfloat16(static_cast<float>(x)) {}

  KOKKOS_INLINE_FUNCTION explicit operator float() const {
    const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
    float x;
    std::memcpy(&x, &word, sizeof x);
    return x;
  }
  KOKKOS_INLINE_FUNCTION explicit operator double() const { return static_cast<float>(*this); }
};
static_assert(sizeof(bfloat16) == 2);

}  // namespace minisp
