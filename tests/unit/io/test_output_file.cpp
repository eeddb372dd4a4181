// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/output_file.hpp"
#include "unit/io/scratch_folder.hpp"
#include "util/error.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <gmock/gmock.h>
#include <optional>
#include <sys/mount.h>
#include <sys/resource.h>

namespace minisp::io {
namespace {

using testing::HasSubstr;

int rank() {
  int value = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &value);
  return value;
}
int ranks() {
  int value = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &value);
  return value;
}
bool there(const std::string& path) {
  MPI_Barrier(MPI_COMM_WORLD);
  const bool answer = std::filesystem::exists(path);
  MPI_Barrier(MPI_COMM_WORLD);
  return answer;
}

template <class Work>
Error error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return input_error("none", "", "");
}

/// Rows [begin, end) of this rank when `rows` are dealt out in order.
std::pair<Index, Index> my_rows(Index rows) {
  return {rows * rank() / ranks(), rows * (rank() + 1) / ranks()};
}

/// Writes a (4, 12, 5) array of which every rank holds some rows of each sequence, last sequence first.
void write_tokens_dealt_out(OutputFile& file) {
  const auto [begin, end] = my_rows(12);
  std::vector<Slab> slabs;
  std::vector<double> data;
  for (Index sequence = 3; sequence >= 0; --sequence) {
    slabs.push_back({{sequence, begin, 0}, {1, end - begin, 5}});
    for (Index i = begin * 5; i < end * 5; ++i) data.push_back(static_cast<double>(sequence * 60 + i));
  }
  file.write_global("/activations/x", {4, 12, 5}, slabs, data.data(), "1", "numbered");
}

TEST(OutputFile, GlobalArraysDoNotDependOnTheRanks) {
  const test::ScratchFolder folder;
  const auto path = folder / "a.h5";
  {
    OutputFile file(MPI_COMM_WORLD, path, false);
    write_tokens_dealt_out(file);
    // Held by one rank alone, as a gradient that every rank has.
    const std::vector<float> weight{1.5F, 2.5F};
    const std::vector<Slab> nothing, both{Slab{{0}, {2}}}, scalar{Slab{}};
    file.write_global("/gradients/layer.0.weight", {2}, rank() == ranks() - 1 ? both : nothing, weight.data(),
                      "1", "one holder");
    file.write_on_root(1000, [](hid_t root) { write_attribute(root, "text", "by rank 0"); });
    const std::int64_t seven = 7;  // a global array after rank 0 has written alone
    file.write_global("/scalar", {}, rank() == 0 ? scalar : nothing, &seven, "1", "scalar");
    EXPECT_FALSE(there(path));
    file.commit();
  }
  EXPECT_TRUE(there(path));
  EXPECT_FALSE(there(path + ".partial"));
  const auto file = open_for_reading(path);
  const auto values = read_doubles(file.get(), "/activations/x");
  ASSERT_EQ(values.size(), 240u);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<double>(i));
  EXPECT_THAT(read_doubles(file.get(), "/gradients/layer.0.weight"), testing::ElementsAre(1.5, 2.5));
  EXPECT_THAT(read_integers(file.get(), "/scalar"), testing::ElementsAre(7));
  EXPECT_EQ(read_attribute<std::string>(file.get(), "text"), "by rank 0");
  EXPECT_EQ(read_attribute<std::string>(open_dataset(file.get(), "/activations/x").get(), "description"),
            "numbered");
  // The stored type is the given one.
  const auto gradient = open_dataset(file.get(), "/gradients/layer.0.weight");
  EXPECT_EQ(H5Dget_storage_size(gradient.get()), 2 * sizeof(float));
}

TEST(OutputFile, PartsThatDoNotMakeUpTheArrayAreRefused) {
  const test::ScratchFolder folder;
  OutputFile file(MPI_COMM_WORLD, folder / "a.h5", false);
  const std::vector<double> data(8, 1.0);
  const std::vector<Slab> nothing;
  const auto on_root = [&](const Slab& slab) { return rank() == 0 ? std::vector<Slab>{slab} : nothing; };
  const auto missing = error_of([&] {
    file.write_global("/x", {8}, on_root({{0}, {7}}), data.data(), "1", "");
  });
  EXPECT_THAT(missing.what(), HasSubstr("7 of 8"));
  EXPECT_TRUE(missing.agreed());
  EXPECT_THROW(file.write_global("/x", {8}, on_root({{1}, {8}}), data.data(), "1", ""), Error);
}

TEST(OutputFile, WithoutCommitTheOldFileStays) {
  const test::ScratchFolder folder;
  const auto path = folder / "a.h5";
  if (rank() == 0) test::write_file(path, "old");
  MPI_Barrier(MPI_COMM_WORLD);
  {
    OutputFile file(MPI_COMM_WORLD, path, true);
    write_tokens_dealt_out(file);
    EXPECT_TRUE(there(path + ".partial"));
  }
  EXPECT_FALSE(there(path + ".partial"));
  EXPECT_EQ(test::content_of(path), "old");
  try {
    OutputFile file(MPI_COMM_WORLD, path, true);
    write_tokens_dealt_out(file);
    throw std::runtime_error("the run fails");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(there(path + ".partial"));
  EXPECT_EQ(test::content_of(path), "old");
}

TEST(OutputFile, AFailureOfRankZeroReachesEveryRank) {
  const test::ScratchFolder folder;
  const auto path = folder / "a.h5";
  const auto error = error_of([&] {
    OutputFile file(MPI_COMM_WORLD, path, false);
    file.write_on_root(0, [](hid_t root) {
      write_dataset(root, "/x", std::vector<double>{1}, "1", "");
      throw input_error("is wrong", "deck.toml:3", "Mend it");
    });
  });
  EXPECT_TRUE(error.agreed());
  EXPECT_EQ(error.code(), ExitCode::bad_input);
  EXPECT_STREQ(error.what(), "deck.toml:3: is wrong. Mend it");
  EXPECT_FALSE(there(path + ".partial"));
  EXPECT_FALSE(there(path));
}

TEST(OutputFile, AnExistingFileIsRefusedUnlessToBeReplaced) {
  const test::ScratchFolder folder;
  const auto path = folder / "a.h5";
  if (rank() == 0) test::write_file(path, "old");
  MPI_Barrier(MPI_COMM_WORLD);
  const auto error = error_of([&] { OutputFile file(MPI_COMM_WORLD, path, false); });
  EXPECT_EQ(error.code(), ExitCode::bad_input);
  EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(path), HasSubstr("exists"), HasSubstr("overwrite")));
  EXPECT_EQ(test::content_of(path), "old");
  MPI_Barrier(MPI_COMM_WORLD);
  OutputFile file(MPI_COMM_WORLD, path, true);
  write_tokens_dealt_out(file);
  file.commit();
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_NO_THROW(open_for_reading(path));
}

TEST(OutputFile, AFileThatAppearsDuringTheRunIsNotReplaced) {
  const test::ScratchFolder folder;
  const auto path = folder / "a.h5";
  {
    OutputFile file(MPI_COMM_WORLD, path, false);
    write_tokens_dealt_out(file);
    if (rank() == 0) test::write_file(path, "theirs");
    EXPECT_THAT(error_of([&] { file.commit(); }).what(), HasSubstr(".partial"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(test::content_of(path), "theirs");
  EXPECT_NO_THROW(open_for_reading(path + ".partial"));  // hours of work are not thrown away
}

TEST(CheckOutputPath, NamesWhatIsWrong) {
  const test::ScratchFolder folder;
  if (rank() != 0) return;
  EXPECT_NO_THROW(check_output_path(folder / "a.h5", false));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.h5.partial"));
  EXPECT_THAT(error_of([&] { check_output_path(folder / "absent/a.h5", false); }).what(),
              HasSubstr("does not exist"));
  EXPECT_THAT(error_of([&] { check_output_path(folder.path(), true); }).what(), HasSubstr("is a folder"));
  // Nobody, not even root, can make a file there.
  const auto error = error_of([&] { check_output_path("/proc/a.h5", true); });
  EXPECT_EQ(error.code(), ExitCode::bad_input);
  EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("cannot be written"), HasSubstr("/proc")));
}

/// A file system of 1 MiB at a folder; needs root.
class SmallDisk {
 public:
  explicit SmallDisk(std::string folder) : folder_(std::move(folder)) {
    int done = rank() != 0 || mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=1m") == 0 ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &done, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    mounted_ = done == 1;
  }
  ~SmallDisk() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (mounted_ && rank() == 0) umount2(folder_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  std::string folder_;
  bool mounted_ = false;
};

TEST(OutputFile, AFullDiskIsOneClearError) {
  const test::ScratchFolder folder;
  const SmallDisk disk(folder.path());
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small file system needs root";
  const auto path = folder / "a.h5";
  if (rank() == 0) test::write_file(path, "old");
  MPI_Barrier(MPI_COMM_WORLD);
  const Index rows = 30000;  // of 8 doubles: 1.9 MB
  const auto [begin, end] = my_rows(rows);
  const std::vector<double> data(static_cast<std::size_t>((end - begin) * 8), 1.0);
  const auto global = error_of([&] {
    OutputFile file(MPI_COMM_WORLD, path, true);
    write_tokens_dealt_out(file);
    file.write_global("/big", {rows, 8}, {{{begin, 0}, {end - begin, 8}}}, data.data(), "1", "");
  });
  EXPECT_EQ(global.code(), ExitCode::environment);
  EXPECT_THAT(global.what(), testing::AllOf(HasSubstr(path), HasSubstr("No space left")));
  const auto small = error_of([&] {
    OutputFile file(MPI_COMM_WORLD, path, true);
    file.write_on_root(2 << 20, [](hid_t) {});
  });
  EXPECT_THAT(small.what(), HasSubstr("No space left"));
  EXPECT_FALSE(there(path + ".partial"));
  EXPECT_EQ(test::content_of(path), "old");
}

/// Lets no file of this process grow beyond `bytes` for the lifetime of the object.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);  // so that write() fails with EFBIG instead
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(OutputFile, ALimitOnTheFileSizeIsOneClearError) {
  const test::ScratchFolder folder;
  const auto path = folder / "a.h5";
  const Index rows = 40000;
  const auto [begin, end] = my_rows(rows);
  const std::vector<double> data(static_cast<std::size_t>((end - begin) * 8), 1.0);
  const auto error = error_of([&] {
    const FileSizeLimit limit(rank() == ranks() - 1 ? 1 << 20 : RLIM_INFINITY);
    OutputFile file(MPI_COMM_WORLD, path, false);
    file.write_global("/big", {rows, 8}, {{{begin, 0}, {end - begin, 8}}}, data.data(), "1", "");
  });
  EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(path), HasSubstr("File too large")));
  EXPECT_FALSE(there(path + ".partial"));
}

// HDF5's own writes fail, data or metadata, after space was reserved.
TEST(OutputFile, AFailedWriteIsOneClearError) {
  const test::ScratchFolder folder;
  for (const int arrays : {1, 20000}) {
    const auto path = folder / ("a" + std::to_string(arrays) + ".h5");
    const auto error = error_of([&] {
      OutputFile file(MPI_COMM_WORLD, path, false);
      write_tokens_dealt_out(file);
      file.write_on_root(0, [&](hid_t root) {
        const FileSizeLimit limit(1 << 20);
        const std::vector<double> values(arrays == 1 ? 200000 : 1, 1.0);
        for (int i = 0; i < arrays; ++i) write_dataset(root, "/more/" + std::to_string(i), values, "1", "");
        checked(H5Fflush(root, H5F_SCOPE_GLOBAL), "cannot flush", path);
      });
    });
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_THAT(error.what(), HasSubstr(path));
    EXPECT_TRUE(error.agreed());
    EXPECT_FALSE(there(path + ".partial"));
  }
}

}  // namespace
}  // namespace minisp::io
