// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A checksum over every byte of a file, in front of its HDF5 content (a "user block", which HDF5 skips). It
// is compared before HDF5 sees the file, so that no damage, in numbers or in HDF5's own tables, gets any
// further.
//
// The checksum is the sum over the file's 32-bit words w_i, i = offset / 4, of h(i, w_i) mod 2^64, where
// h(i, w) = mix(i 0x9E3779B97F4A7C15 + w) and mix is the finalizer of SplitMix64 (Steele et al., OOPSLA 2014,
// doi:10.1145/2660193.2660195). mix is a bijection: a change of one word always changes the sum, other
// changes stay unseen once in 2^64. Being a sum, it is computed in parts, in any order, by any number of
// ranks.
#pragma once

#include "comm/communicator.hpp"
#include "io/byte_file.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace minisp::io {

/// Bytes of the user block; the smallest that HDF5 has.
inline constexpr std::int64_t seal_bytes = 512;

/// The part of the checksum that `bytes` bytes at `offset`, a multiple of 4, make up; a last word that is cut
/// off counts as filled with zeros.
std::uint64_t sum_of_words(std::int64_t offset, const void* data, std::size_t bytes);
/// The same for bytes [begin, end) of a file.
std::uint64_t sum_of_words(const ByteFile& file, std::int64_t begin, std::int64_t end);

/// Writes the seal of the file as it stands, whose checksum behind the seal is `sum`.
void write_seal(const std::string& path, std::uint64_t sum);

/// Collective: the ranks share the reading. Throws Error (bad_input, agreed) where the file has no seal or
/// another content than when it was sealed; `remedy` completes the message.
void require_seal(const comm::Communicator& world, const std::string& path, const std::string& remedy);

}  // namespace minisp::io
