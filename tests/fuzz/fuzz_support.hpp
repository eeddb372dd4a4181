// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What the fuzz targets share. A target passes when bad input ends in an Error (bad_input) with all its
// parts, and good input keeps the promises that the target states; anything else ends the process.
#pragma once

#include "util/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace minisp::fuzz {

inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

/// False where `call` refuses its input in the way that it should.
template <class Call>
bool accepts(Call call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    require(error.code() == ExitCode::bad_input, "bad input is the user's to mend");
    require(!error.where().empty() && !error.remedy().empty(), "an error says where and what to do");
    require(std::string(error.what()).size() < 20000, "an error can be read");
    return false;
  }
}

/// A file in memory with the fuzzer's bytes, under a path that lives as long as the object.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : file_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(file_ >= 0 && write(file_, data, size) == static_cast<ssize_t>(size), "there is memory");
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

}  // namespace minisp::fuzz
