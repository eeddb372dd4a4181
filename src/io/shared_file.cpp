// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/shared_file.hpp"

#include "comm/agree.hpp"
#include "util/error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace minisp::io {

namespace {

/// Linux writes at most 2^31 - 4096 bytes a call.
constexpr std::size_t bytes_per_call = std::size_t{1} << 30;

}  // namespace

void SharedFile::failed(const std::string& what, int code) const {
  throw environment_error(what + " (" + std::strerror(code) + ")", path_,
                          "Free space on this disk, raise the limit, or change " + key_);
}

SharedFile::SharedFile(const comm::Communicator& ranks, std::string path, std::int64_t bytes, std::string key)
    : ranks_(ranks),
      path_(std::move(path)),
      partial_(path_ + ".partial"),
      key_(std::move(key)),
      bytes_(bytes) {
  const auto wanted = static_cast<std::uint64_t>(bytes);
  try {
    comm::collective_guard(ranks_, [&] {
      // A process that writes beyond its limit is killed without a word.
      if (const int code = size_limit_error(wanted))
        failed("no room: " + std::to_string(bytes) + " bytes", code);
      if (ranks_.rank() != 0) return;
      file_.id = open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
      if (file_.id < 0) failed("cannot be made", errno);
      if (const int code = allocate(partial_, wanted))
        failed("no room: " + std::to_string(bytes) + " bytes are needed", code);
      if (ftruncate(file_.id, static_cast<off_t>(bytes)) != 0) failed("cannot be given its size", errno);
    });
    comm::collective_guard(ranks_, [&] {
      if (ranks_.rank() == 0) return;
      file_.id = open(partial_.c_str(), O_WRONLY | O_CLOEXEC);
      struct stat status {};
      if (file_.id < 0 || fstat(file_.id, &status) != 0 || status.st_size != bytes)
        throw input_error(
            "rank " + std::to_string(ranks_.rank()) + " does not see the file that rank 0 has made", partial_,
            "Name a folder in " + key_ + " that every node shares");
    });
  } catch (...) {  // the destructor does not run
    if (ranks_.rank() == 0) unlink(partial_.c_str());
    throw;
  }
}

SharedFile::~SharedFile() {
  if (!published_ && ranks_.rank() == 0) unlink(partial_.c_str());
}

void SharedFile::write(std::int64_t offset, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t written = pwrite(file_.id, data.data(), std::min(data.size(), bytes_per_call), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) failed("writing failed", written < 0 ? errno : ENOSPC);
    data = data.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

void SharedFile::finish() {
  comm::collective_guard(ranks_, [&] {
    if (fsync(file_.id) != 0) failed("cannot be brought to the disk", errno);
    // Blocks beyond the end, where the file system allocates more than it was asked for, are freed.
    if (ranks_.rank() == 0 && ftruncate(file_.id, static_cast<off_t>(bytes_)) != 0)
      failed("cannot be given its size", errno);
    if (const int code = file_.close()) failed("cannot be closed", code);
  });
}

void SharedFile::publish() {
  comm::collective_guard(ranks_, [&] {
    if (ranks_.rank() != 0) return;
    if (std::rename(partial_.c_str(), path_.c_str()) != 0)
      failed("the finished file cannot be renamed", errno);
    sync(folder_of(path_), O_RDONLY);
  });
  published_ = true;
}

}  // namespace minisp::io
