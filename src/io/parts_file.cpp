// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/parts_file.hpp"

#include "comm/agree.hpp"
#include "io/disk.hpp"
#include "util/error.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <utility>

namespace minisp::io {

namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

/// PATH.partial, until it is renamed.
class PartialFile {
 public:
  explicit PartialFile(const std::string& path)
      : path_(path), partial_(path + ".partial"), file_(std::fopen(partial_.c_str(), "wb")) {
    if (file_ == nullptr) fail();
  }
  ~PartialFile() {
    if (file_ != nullptr) std::fclose(file_);
    if (!published_) std::remove(partial_.c_str());
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail();
  }
  void publish() {
    const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
    if (!closed) fail();
    sync(partial_, O_WRONLY);
    if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail();
    published_ = true;
  }

 private:
  [[noreturn]] void fail() const {
    throw environment_error("cannot be written (" + system_message() + ")", path_,
                            "Free some space, or write to another folder");
  }

  std::string path_, partial_;
  std::FILE* file_ = nullptr;
  bool published_ = false;
};

/// Rank 0's side: what the others send has to be received, whether or not it can be written.
void receive_part(comm::Backend& backend, int from, PartialFile* file, std::exception_ptr& failure) {
  std::uint64_t left = 0;
  backend.host_receive(&left, sizeof(left), from);
  std::string piece;
  while (left > 0) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(left, piece_bytes)));
    backend.host_receive(piece.data(), piece.size(), from);
    left -= piece.size();
    if (failure) continue;
    try {
      file->write(piece);
    } catch (...) {
      failure = std::current_exception();
    }
  }
}

void send_part(comm::Backend& backend, const std::string& part) {
  const std::uint64_t size = part.size();
  backend.host_send(&size, sizeof(size), 0);
  for (std::size_t begin = 0; begin < part.size(); begin += piece_bytes)
    backend.host_send(part.data() + begin, std::min(piece_bytes, part.size() - begin), 0);
}

}  // namespace

void write_parts(const comm::Communicator& world, const std::string& path, const std::string& part) {
  std::exception_ptr failure;
  if (world.rank() != 0) {
    send_part(world.backend(), part);
  } else {
    std::unique_ptr<PartialFile> file;
    try {
      file = std::make_unique<PartialFile>(path);
      file->write(part);
    } catch (...) {
      failure = std::current_exception();
    }
    for (int from = 1; from < world.size(); ++from) receive_part(world.backend(), from, file.get(), failure);
    try {
      if (!failure) file->publish();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  comm::agree(world, failure);
}

void write_text_file(const std::string& path, const std::string& text) {
  PartialFile file(path);
  file.write(text);
  file.publish();
}

}  // namespace minisp::io
