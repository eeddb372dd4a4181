// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/disk.hpp"

#include "util/error.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace minisp::io {

Descriptor::~Descriptor() {
  close();
}

int Descriptor::close() {
  const int code = id >= 0 && ::close(id) != 0 ? errno : 0;
  id = -1;
  return code;
}

std::string system_message() {
  return std::strerror(errno);
}

int size_limit_error(std::uint64_t end) {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  return limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur ? EFBIG : 0;
}

int allocate(const std::string& path, std::uint64_t end) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.id < 0) return errno;
#ifdef FALLOC_FL_KEEP_SIZE
  if (fallocate(file.id, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(end)) == 0) return 0;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
#endif
  struct stat present {};
  struct statvfs system {};
  if (fstat(file.id, &present) != 0 || fstatvfs(file.id, &system) != 0) return errno;
  const auto has = static_cast<std::uint64_t>(present.st_blocks) * 512;
  const auto free = static_cast<std::uint64_t>(system.f_bavail) * system.f_frsize;
  return end > has && end - has > free ? ENOSPC : 0;
}

void sync(const std::string& path, int flags) {
  const Descriptor file(open(path.c_str(), flags | O_CLOEXEC));
  // Some file systems cannot sync a folder (EINVAL); what they promise about renames is then all there is.
  if (file.id < 0 || (fsync(file.id) != 0 && errno != EINVAL))
    throw environment_error("cannot be brought to the disk (" + system_message() + ")", path,
                            "Check the disk's free space and quota");
}

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace minisp::io
