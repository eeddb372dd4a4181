// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Random numbers as pure functions of (seed, stream, index): the same for every rank count, decomposition and
// thread. Philox4x32-10: Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
#pragma once

#include "util/kokkos_compat.hpp"

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace minisp::math {

struct PhiloxBlock {
  std::uint32_t word[4];
};

/// The 128 random bits that belong to a 128-bit counter and a 64-bit key.
KOKKOS_INLINE_FUNCTION PhiloxBlock philox4x32_10(PhiloxBlock counter, std::uint32_t key0,
                                                 std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// The block of element `index` of `stream` under `seed`.
KOKKOS_INLINE_FUNCTION PhiloxBlock random_block(std::uint64_t seed, std::uint64_t stream,
                                                std::uint64_t index) {
  const PhiloxBlock counter{{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                             static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}};
  return philox4x32_10(counter, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

/// 64 random bits, from words 0 and 1 of the block.
KOKKOS_INLINE_FUNCTION std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream,
                                                 std::uint64_t index) {
  const PhiloxBlock block = random_block(seed, stream, index);
  return std::uint64_t{block.word[1]} << 32 | block.word[0];
}

/// Uniform in [0, 1), a multiple of 2^-53.
KOKKOS_INLINE_FUNCTION double random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return static_cast<double>(random_bits(seed, stream, index) >> 11) * 0x1p-53;
}

/// Normal, mean 0, deviation 1 (Box-Muller on the two halves of the block). The last bit may differ between
/// mathematics libraries, so between a host and a device.
KOKKOS_INLINE_FUNCTION double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  constexpr double two_pi = 6.283185307179586476925;
  const PhiloxBlock block = random_block(seed, stream, index);
  const std::uint64_t low = std::uint64_t{block.word[1]} << 32 | block.word[0];
  const std::uint64_t high = std::uint64_t{block.word[3]} << 32 | block.word[2];
  const double radius_uniform = (static_cast<double>(low >> 11) + 1) * 0x1p-53;  // (0, 1]: its log is finite
  const double angle_uniform = static_cast<double>(high >> 11) * 0x1p-53;
  return compat::math::sqrt(-2 * compat::math::log(radius_uniform)) *
         compat::math::cos(two_pi * angle_uniform);
}

}  // namespace minisp::math
