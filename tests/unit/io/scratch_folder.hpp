// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A folder of its own for one test, the same on every rank, removed at the end.
#pragma once

#include <mpi.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>

namespace minisp::test {

class ScratchFolder {
 public:
  ScratchFolder() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    static int number = 0;
    int id[2] = {static_cast<int>(getpid()), number++};
    MPI_Bcast(id, 2, MPI_INT, 0, MPI_COMM_WORLD);
    folder_ = std::filesystem::temp_directory_path() /
              ("minisp-test-" + std::to_string(id[0]) + "-" + std::to_string(id[1]));
    if (rank_ == 0) std::filesystem::create_directories(folder_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~ScratchFolder() {
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (rank_ == 0) std::filesystem::remove_all(folder_, ignored);
  }
  std::string operator/(const std::string& name) const { return (folder_ / name).string(); }
  std::string path() const { return folder_.string(); }

 private:
  int rank_ = 0;
  std::filesystem::path folder_;
};

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace minisp::test
