// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/byte_file.hpp"

#include "util/error.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace minisp::io {

struct ByteFile::Descriptor {
  explicit Descriptor(int file) : number(file) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number;
};

ByteFile::ByteFile(const std::string& path, const std::string& remedy)
    : path_(path), descriptor_(std::make_shared<Descriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC))) {
  if (descriptor_->number < 0)
    throw input_error("the file cannot be opened (" + std::string(std::strerror(errno)) + ")", path, remedy);
  struct stat status {};
  if (::fstat(descriptor_->number, &status) != 0 || !S_ISREG(status.st_mode))
    throw input_error("this is no regular file", path, remedy);
  size_ = status.st_size;
}

void ByteFile::read(std::int64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_->number, out.data() + done, out.size() - done,
                                offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw environment_error(got < 0 ? "reading failed (" + std::string(std::strerror(errno)) + ")"
                                      : "the file ends at byte " +
                                            std::to_string(offset + static_cast<std::int64_t>(done)) +
                                            "; it was longer when it was opened",
                              path_, "Check the disk, and that nothing else writes the file");
    done += static_cast<std::size_t>(got);
  }
}

}  // namespace minisp::io
