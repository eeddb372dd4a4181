// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What files that must not be lost or half-written ask of the operating system.
#pragma once

#include <cstdint>
#include <string>

namespace minisp::io {

/// A POSIX file descriptor, closed at the end of its life; negative: none.
struct Descriptor {
  explicit Descriptor(int number) : id(number) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  /// Closes; returns errno, since a network file system may report a failed write only here.
  int close();
  int id = -1;
};

/// The text of errno.
std::string system_message();

/// EFBIG when this process may not write up to byte `end` (ulimit -f), else 0.
int size_limit_error(std::uint64_t end);

/// Allocates blocks up to byte `end` without changing the file's size; returns errno. Where the system or the
/// file system cannot do so, the free space has to be enough (quotas go unseen then).
int allocate(const std::string& path, std::uint64_t end);

/// Brings a file (flags O_WRONLY) or a folder (O_RDONLY) to the disk. Throws Error (environment).
void sync(const std::string& path, int flags);

/// The folder that `path` lies in; "." for a plain name.
std::string folder_of(const std::string& path);

}  // namespace minisp::io
