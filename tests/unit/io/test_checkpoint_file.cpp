// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints in a folder: which is the newest, which go, and what a folder must not hold.
#include "io/checkpoint_file.hpp"
#include "support/error_of.hpp"
#include "unit/io/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <gmock/gmock.h>

namespace minisp::io {
namespace {

using test::error_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointFolder : public testing::Test {
 protected:
  void touch(const std::string& name) { test::write_file(folder / name, ""); }
  bool there(const std::string& name) { return std::filesystem::exists(folder / name); }
  const test::ScratchFolder folder;
};

TEST_F(CheckpointFolder, TheNewestIsThatOfTheLatestStep) {
  for (const char* name : {"step-000009.h5", "step-000010.h5", "step-1000000.h5", "step-000011.h5.partial",
                           "step-.h5", "step-12x.h5", "step--99999999.h5", "result.h5", "step-999999999.txt"})
    touch(name);
  EXPECT_THAT(checkpoint_steps(folder.path()), ElementsAre(9, 10, 1000000));
  EXPECT_EQ(find_checkpoint(folder.path()), folder / "step-1000000.h5");
  EXPECT_EQ(find_checkpoint(folder / "step-000009.h5"), folder / "step-000009.h5");
  EXPECT_EQ(checkpoint_path("a/b", 20), "a/b/step-000020.h5");
}

TEST_F(CheckpointFolder, NothingToGoOnFromIsSaid) {
  touch("step-000011.h5.partial");
  EXPECT_THAT(error_of([&] { find_checkpoint(folder.path()); }),
              AllOf(HasSubstr(folder.path()), HasSubstr("no checkpoint")));
  EXPECT_THAT(error_of([&] { find_checkpoint(folder / "none"); }), HasSubstr("no such file or folder"));
}

TEST_F(CheckpointFolder, OldOnesAndLeftoversGo) {
  for (const char* name : {"step-000001.h5", "step-000002.h5", "step-000003.h5", "step-000004.h5.partial",
                           "other.h5", "other.h5.partial"})
    touch(name);
  remove_old_checkpoints(folder.path(), 2);
  EXPECT_THAT(checkpoint_steps(folder.path()), ElementsAre(2, 3));
  EXPECT_FALSE(there("step-000004.h5.partial"));
  EXPECT_TRUE(there("other.h5") && there("other.h5.partial"));
  remove_old_checkpoints(folder.path(), 5);
  EXPECT_THAT(checkpoint_steps(folder.path()), ElementsAre(2, 3));
}

TEST_F(CheckpointFolder, ADamagedOneNamesTheOneBefore) {
  touch("step-000002.h5");
  touch("step-000004.h5");
  EXPECT_THAT(remedy_for_damaged(folder / "step-000004.h5"), HasSubstr(folder / "step-000002.h5"));
  EXPECT_THAT(remedy_for_damaged(folder / "step-000002.h5"), HasSubstr("no older one"));
}

/// A run that began anew beside the checkpoints of a longer one would be taken for it at the next restart.
TEST_F(CheckpointFolder, CheckpointsOfLaterStepsAreNotMixedIn) {
  prepare_checkpoint_folder(folder / "new/one", 0);
  EXPECT_TRUE(there("new/one"));
  touch("step-000004.h5");
  prepare_checkpoint_folder(folder.path(), 4);
  EXPECT_THAT(error_of([&] { prepare_checkpoint_folder(folder.path(), 0); }),
              AllOf(HasSubstr(folder.path()), HasSubstr("step-000004.h5"), HasSubstr("--restart")));
  EXPECT_THAT(error_of([&] { prepare_checkpoint_folder(folder / "step-000004.h5", 0); }),
              HasSubstr("checkpoint.folder"));
  EXPECT_THAT(checkpoint_steps(folder.path()), ElementsAre(4));
}

TEST_F(CheckpointFolder, TheHeaderComesBack) {
  const auto path = folder / "a.h5";
  const CheckpointHeader header{7, {{"train.batch", "24"}, {"data.source", "\"synthetic\""}}, {"weights"}};
  {
    const auto file = create_file(path);
    write_header(file.get(), header);
  }
  const auto read = read_checkpoint_header(path);
  EXPECT_EQ(read.steps_done, 7);
  EXPECT_THAT(read.settings, testing::UnorderedElementsAreArray(header.settings));
  EXPECT_EQ(read.states, header.states);
  {
    const auto file = open_for_appending(path);
    write_attribute<std::int64_t>(file.get(), "format_version", 2);
  }
  EXPECT_THAT(error_of([&] { read_checkpoint_header(path); }),
              AllOf(HasSubstr(path), HasSubstr("version 2")));
  {
    const auto file = open_for_appending(path);
    write_attribute(file.get(), "format", "miniSP result");
  }
  EXPECT_THAT(error_of([&] { read_checkpoint_header(path); }), HasSubstr("is no checkpoint"));
}

}  // namespace
}  // namespace minisp::io
