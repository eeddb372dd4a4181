// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A file of known size that all ranks write, each at its own offsets, under a temporary name until it is
// whole.
#pragma once

#include "comm/communicator.hpp"
#include "io/disk.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace minisp::io {

/// Written as PATH.partial and renamed to PATH by publish(). Until then a file at PATH stays as it is;
/// without publish() the destructor removes the partial file. Plain POSIX writes: they say at once when the
/// disk is full, and what is stored does not depend on who wrote it.
class SharedFile {
 public:
  /// Collective; every rank throws the same Error. Rank 0 makes the partial file with blocks for `bytes`, so
  /// that a full disk is noticed before hours of writing. `key` is the deck's key that the messages name. The
  /// communicator outlives the object.
  SharedFile(const comm::Communicator& ranks, std::string path, std::int64_t bytes, std::string key);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  /// Of this rank alone; throws Error (environment). The ranks' ranges do not overlap and cover the file.
  void write(std::int64_t offset, std::span<const std::byte> data);
  /// Collective: what every rank wrote is on the disk. Nothing may be written afterwards.
  void finish();
  /// Collective, after finish(): takes the place of what is at PATH.
  void publish();
  /// Leaves the partial file where it is, for the user to take.
  void keep_partial() { published_ = true; }

  const std::string& partial() const { return partial_; }

 private:
  [[noreturn]] void failed(const std::string& what, int code) const;

  const comm::Communicator& ranks_;
  std::string path_, partial_, key_;
  std::int64_t bytes_ = 0;
  Descriptor file_{-1};
  bool published_ = false;
};

}  // namespace minisp::io
