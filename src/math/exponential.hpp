// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Elementary functions without branches or table look-ups, so that compilers vectorise the loops that call
// them (a call into the C library stops that). Errors: doc comment of each, measured in tests/unit/math.
#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <type_traits>

namespace minisp::math {

namespace detail {

// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2, exp(r) = 1 + r + r^2 q(r), q the minimax
// polynomial of exp(r)'s relative error (Remez). ln 2 is split in two so that x - n ln 2 is exact in its high
// part. Adding 1.5 * 2^(mantissa bits) rounds to an integer and leaves that integer in the low bits.
template <class T>
struct ExponentialConstants;

template <>
struct ExponentialConstants<float> {
  using Bits = std::int32_t;
  static constexpr int mantissa_bits = 23;
  static constexpr Bits exponent_bias = 127;
  static constexpr float rounder = 12582912.0f;
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr float lowest = -87.3365402f;  // ln of the smallest normal number
  static constexpr float highest = 88.3762626f;  // n stays below 128
  static constexpr float infinity = std::numeric_limits<float>::infinity();
  KOKKOS_INLINE_FUNCTION static float q(float r) {
    return 0.499999934476f +
           r * (0.166665206313f + r * (0.0416683880787f + r * (0.00836871691635f + r * 0.00138145972371f)));
  }
};

template <>
struct ExponentialConstants<double> {
  using Bits = std::int64_t;
  static constexpr int mantissa_bits = 52;
  static constexpr Bits exponent_bias = 1023;
  static constexpr double rounder = 6755399441055744.0;
  static constexpr double ln2_high = 0.693147180369123816490, ln2_low = 1.90821492927058770002e-10;
  static constexpr double lowest = -708.396418532264106;
  static constexpr double highest = 709.4361393;
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  KOKKOS_INLINE_FUNCTION static double q(double r) {
    const double r2 = r * r, r4 = r2 * r2;
    const double q01 = 0.50000000000000106271 + r * 0.16666666666666412522;
    const double q23 = 0.04166666666653015876 + r * 0.0083333333334944626093;
    const double q45 = 0.0013888888943630069847 + r * 0.00019841269506576396734;
    const double q67 = 0.000024801493098947544343 + r * 2.7557586375990773834e-6;
    const double q89 = 2.7630248366114965044e-7 + r * 2.5000060913375838342e-8;
    return (q01 + r2 * q23) + r4 * ((q45 + r2 * q67) + r4 * q89);
  }
};

// (2^r - 1) / r on [-1/2, 1/2]. float: minimax of the error of 2^r in units in the last place (1.1 of them,
// relative 1.1e-7); double: interpolated at the Chebyshev nodes (9e-18). That 2^0 comes out as 1 exactly
// keeps the largest probability of a row exact. V: T, or a vector of T.
template <class T>
struct Exp2Fraction;
template <>
struct Exp2Fraction<float> {
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static V at(const V& r) {
    return ((((0x1.5ab438p-10f * r + 0x1.3cecap-7f) * r + 0x1.c6baa2p-5f) * r + 0x1.ebf9b4p-3f) * r +
            0x1.62e424p-1f);
  }
};
template <>
struct Exp2Fraction<double> {
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static V at(const V& r) {
    V p = 0x1.e9d3fe3952179p-32 * r + 0x1.e6063f7217bc6p-28;
    p = ((p * r + 0x1.b524fae627834p-24) * r + 0x1.62bfd47773353p-20) * r + 0x1.ffcbfc670dcd4p-17;
    p = ((p * r + 0x1.430913096fd9fp-13) * r + 0x1.5d87fe78a5276p-10) * r + 0x1.3b2ab6fba1ddap-7;
    return ((p * r + 0x1.c6b08d704a0c2p-5) * r + 0x1.ebfbdff82c598p-3) * r + 0x1.62e42fefa39efp-1;
  }
};

}  // namespace detail

/// exp(x), within 1.1 units in the last place. 0 where the result would be below the smallest normal number
/// (exp(-inf) included), +inf above 2^127.5 (double: 2^1023.5), NaN for NaN.
template <class T>
KOKKOS_INLINE_FUNCTION T exponential(T x) {
  using C = detail::ExponentialConstants<T>;
  using Bits = typename C::Bits;
  const T shifted = x * std::numbers::log2e_v<T> + C::rounder;
  const T n = shifted - C::rounder;
  const T r = (x - n * C::ln2_high) - n * C::ln2_low;
  const T mantissa = T(1) + (r + r * r * C::q(r));
  Bits bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  // The integer n sits in the low bits; the shift pushes the rest of `shifted` out.
  bits =
      static_cast<Bits>(static_cast<std::make_unsigned_t<Bits>>(bits + C::exponent_bias) << C::mantissa_bits);
  T power;
  std::memcpy(&power, &bits, sizeof power);
  const T result = mantissa * power;
  const T floored = x < C::lowest ? T(0) : result;
  return x > C::highest ? C::infinity : floored;
}

/// 2^x, within 2.1 units in the last place in float and 1.2 in double for x up to the largest exponent; what
/// would be below the smallest normal number (twice that at most) is 0, as is 2^-inf. Half of exponential()'s
/// instructions: for arguments that are rounded already, whose own error is larger than what this adds.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T exp2(T x) {
  using C = detail::ExponentialConstants<T>;
  using Bits = std::make_unsigned_t<typename C::Bits>;
  const T shifted = x + C::rounder;
  const T r = x - (shifted - C::rounder);
  const T power = detail::Exp2Fraction<T>::at(r) * r + T(1);
  Bits bits, integer;
  std::memcpy(&bits, &power, sizeof bits);
  std::memcpy(&integer, &shifted, sizeof integer);
  // The integer moves into the exponent field. Unsigned: far below the smallest exponent the sum wraps round.
  bits += integer << C::mantissa_bits;
  T result;
  std::memcpy(&result, &bits, sizeof result);
  return x < T(std::numeric_limits<T>::min_exponent) ? T(0) : result;
}

/// 1 / (1 + 2^x), within 3.5 units in the last place in float and 2.5 in double; 0 where the result would be
/// below the smallest normal number.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T over_one_plus_exp2(T x) {
  const T quotient = T(1) / (T(1) + exp2(x));
  return x > T(1 - std::numeric_limits<T>::min_exponent) ? T(0) : quotient;
}

/// 1 / (1 + exp(-x)), within 2.5 units in the last place (0 below -88, double: -709).
template <class T>
KOKKOS_INLINE_FUNCTION T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}

}  // namespace minisp::math
