// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/seal.hpp"

#include "comm/agree.hpp"
#include "comm/scalars.hpp"
#include "util/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <numeric>
#include <unistd.h>

namespace minisp::io {

namespace {

constexpr std::int64_t bytes_a_read = 4 << 20;

using Block = std::array<char, seal_bytes>;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

std::uint64_t term(std::uint64_t position, std::uint32_t word) {
  return mix(position * 0x9E3779B97F4A7C15u + word);
}

Block block_of(std::int64_t bytes, std::uint64_t sum) {
  Block block{};
  const auto text = fmt::format("miniSP sealed file 1\nbytes {}\nchecksum {:016x}\n", bytes, sum);
  std::copy(text.begin(), text.end(), block.begin());
  return block;
}

/// The checksum that the seal states. Throws where there is none, or the file has another length.
std::uint64_t stated_sum(const ByteFile& file, const std::string& remedy) {
  const auto damaged = [&](const std::string& what) { return input_error(what, file.path(), remedy); };
  Block block{};
  if (file.size() < seal_bytes) throw damaged(fmt::format("is cut off: it has only {} bytes", file.size()));
  file.read(0, std::as_writable_bytes(std::span(block)));
  long long bytes = 0;
  unsigned long long sum = 0;
  if (std::sscanf(std::string(block.data(), block.size()).c_str(),
                  "miniSP sealed file 1\nbytes %lld\nchecksum %16llx\n", &bytes, &sum) != 2)
    throw damaged("does not begin as a checkpoint does: it is damaged, or none");
  if (bytes != file.size())
    throw damaged(fmt::format("is damaged: it has {} bytes, but {} were written", file.size(), bytes));
  if (block != block_of(bytes, sum)) throw damaged("is damaged in its first bytes");
  return sum;
}

}  // namespace

std::uint64_t sum_of_words(std::int64_t offset, const void* data, std::size_t bytes) {
  const auto* const source = static_cast<const char*>(data);
  const auto first = static_cast<std::uint64_t>(offset) / 4;
  std::uint64_t sum = 0;
  const std::size_t words = bytes / 4;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, source + 4 * i, 4);
    sum += term(first + i, word);
  }
  if (bytes % 4 != 0) {
    std::uint32_t word = 0;
    std::memcpy(&word, source + 4 * words, bytes % 4);
    sum += term(first + words, word);
  }
  return sum;
}

std::uint64_t sum_of_words(const ByteFile& file, std::int64_t begin, std::int64_t end) {
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::clamp(end - begin, std::int64_t{0}, bytes_a_read)));
  std::uint64_t sum = 0;
  for (; begin < end; begin += bytes_a_read) {
    const auto part = std::span(buffer).first(static_cast<std::size_t>(std::min(bytes_a_read, end - begin)));
    file.read(begin, part);
    sum += sum_of_words(begin, part.data(), part.size());
  }
  return sum;
}

void write_seal(const std::string& path, std::uint64_t sum) {
  const Block block = block_of(ByteFile(path, "Check the disk").size(), sum);
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool written = file >= 0 && pwrite(file, block.data(), block.size(), 0) == seal_bytes;
  const std::string reason = std::strerror(errno);
  if ((file >= 0 && close(file) != 0) || !written)
    throw environment_error("cannot be sealed (" + reason + ")", path,
                            "Check the disk's free space and quota");
}

void require_seal(const comm::Communicator& world, const std::string& path, const std::string& remedy) {
  std::uint64_t stated = 0;
  const auto sum = comm::collective_guard(world, [&] {
    const ByteFile file(path, "Check the path");
    stated = stated_sum(file, remedy);
    const std::int64_t words = (file.size() - seal_bytes + 3) / 4;
    const auto edge = [&](int rank) {
      return std::min(file.size(), seal_bytes + 4 * (words * rank / world.size()));
    };
    return sum_of_words(file, edge(world.rank()), edge(world.rank() + 1));
  });
  std::uint64_t found = 0;
  for (const auto part : comm::gather_scalar(world, static_cast<Index>(sum)))
    found += static_cast<std::uint64_t>(part);
  comm::collective_guard(world, [&] {
    if (found != stated)
      throw input_error(
          fmt::format("is damaged: its checksum is {:016x}, but {:016x} was written", found, stated), path,
          remedy);
  });
}

}  // namespace minisp::io
