// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A file read at any offset. Read, not mapped: mapped pages would count as the rank's memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace minisp::io {

static_assert(std::endian::native == std::endian::little,
              "the files read here are little endian, and so is the reader");

class ByteFile {
 public:
  /// `remedy` completes the message when `path` is no readable file (Error, bad_input).
  ByteFile(const std::string& path, const std::string& remedy);

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }  ///< bytes, when it was opened

  /// out = the bytes from `offset` on. May be called by several threads at once. Throws Error where the
  /// file has become shorter or the disk fails (environment).
  void read(std::int64_t offset, std::span<std::byte> out) const;

 private:
  struct Descriptor;

  std::string path_;
  std::shared_ptr<const Descriptor> descriptor_;  ///< closed with the last copy
  std::int64_t size_ = 0;
};

}  // namespace minisp::io
