// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/hdf5.hpp"
#include "io/reference_file.hpp"
#include "unit/io/scratch_folder.hpp"
#include "util/error.hpp"

#include <gtest/gtest.h>

#include <gmock/gmock.h>

namespace minisp::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The error that `work` throws; fails the test when it throws none.
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

TEST(Hdf5, AttributesReturnAsWritten) {
  const test::ScratchFolder folder;
  const auto path = folder / "a.h5";
  const std::string text = "héllo\nworld";
  {
    const auto file = create_file(path);
    write_attribute(file.get(), "double", 0.1);
    write_attribute(file.get(), "integer", std::int64_t{1} << 60);
    write_attribute(file.get(), "yes", true);
    write_attribute(file.get(), "text", text);
    write_attribute(file.get(), "text", text + "!");  // replaces
    write_attribute(file.get(), "empty", "");
    write_attribute(file.get(), "doubles", std::vector<double>{1.5, -2.5});
    write_attribute(file.get(), "integers", std::vector<std::int64_t>{3});
    write_attribute(file.get(), "texts", std::vector<std::string>{"a", "", "ccc"});
  }
  const auto file = open_for_reading(path);
  EXPECT_EQ(read_attribute<double>(file.get(), "double"), 0.1);
  EXPECT_EQ(read_attribute<std::int64_t>(file.get(), "integer"), std::int64_t{1} << 60);
  EXPECT_TRUE(read_attribute<bool>(file.get(), "yes"));
  EXPECT_EQ(read_attribute<std::string>(file.get(), "text"), text + "!");
  EXPECT_EQ(read_attribute<std::string>(file.get(), "empty"), "");
  EXPECT_THAT(read_attribute<std::vector<double>>(file.get(), "doubles"), ElementsAre(1.5, -2.5));
  EXPECT_THAT(read_attribute<std::vector<std::int64_t>>(file.get(), "integers"), ElementsAre(3));
  EXPECT_THAT(read_attribute<std::vector<std::string>>(file.get(), "texts"), ElementsAre("a", "", "ccc"));
  EXPECT_TRUE(is_numeric_attribute(file.get(), "integers"));
  EXPECT_FALSE(is_numeric_attribute(file.get(), "text"));
  EXPECT_FALSE(has_attribute(file.get(), "absent"));
  EXPECT_THAT(error_of([&] { read_attribute<double>(file.get(), "absent"); }).what(),
              testing::AllOf(HasSubstr(path), HasSubstr("absent")));
}

// A file of another program: what is missing or of another kind is the user's to mend, not the machine's.
TEST(Hdf5, OtherContentIsBadInput) {
  const test::ScratchFolder folder;
  const auto path = folder / "a.h5";
  {
    const auto file = create_file(path);
    write_attribute(file.get(), "text", "1");
    write_attribute(file.get(), "numbers", std::vector<double>{1, 2});
    write_text(file.get(), "/group/text", "1", "a text");
  }
  const auto file = open_for_reading(path);
  const auto expect_refused = [&](const auto& read, const std::string& where) {
    const Error error = error_of(read);
    EXPECT_EQ(error.code(), ExitCode::bad_input) << error.what();
    EXPECT_THAT(error.where(), testing::AllOf(HasSubstr(path), HasSubstr(where)));
    EXPECT_FALSE(error.remedy().empty());
  };
  expect_refused([&] { read_attribute<std::int64_t>(file.get(), "absent"); }, "absent");
  expect_refused([&] { read_attribute<double>(file.get(), "text"); }, "text");
  expect_refused([&] { read_attribute<std::vector<std::int64_t>>(file.get(), "text"); }, "text");
  expect_refused([&] { read_attribute<double>(file.get(), "numbers"); }, "numbers");
  expect_refused([&] { read_attribute<std::string>(file.get(), "numbers"); }, "numbers");
  expect_refused([&] { open_dataset(file.get(), "/group"); }, "group");
  expect_refused([&] { read_doubles(file.get(), "/group/text"); }, "text");
  expect_refused([&] { read_doubles(open_dataset(file.get(), "/group/text").get(), Slab{}); }, "text");
}

TEST(Hdf5, DatasetsReturnAsWritten) {
  const test::ScratchFolder folder;
  const auto path = folder / "a.h5";
  const std::string long_text(100000, 'x');  // more than an attribute holds
  {
    const auto file = create_file(path);
    const std::vector<float> floats{1.F, 2.F, 3.F, 4.F, 5.F, 6.F};
    write_dataset(file.get(), "/a/b/floats", {2, 3}, floats.data(), "m", "six numbers");
    write_dataset(file.get(), "/a/b.weight", std::vector<double>{0.1}, "1", "one");
    write_dataset(file.get(), "/a/integers", std::vector<std::int64_t>{std::int64_t{1} << 53, -1}, "B",
                  "two");
    write_dataset(file.get(), "/none", std::vector<double>{}, "1", "no elements");
    write_text(file.get(), "/text", long_text, "long");
    write_texts(file.get(), "/texts", {}, "none");
  }
  const auto file = open_for_reading(path);
  EXPECT_THAT(read_doubles(file.get(), "/a/b/floats"), ElementsAre(1, 2, 3, 4, 5, 6));
  const auto floats = open_dataset(file.get(), "/a/b/floats");
  EXPECT_THAT(shape_of(floats.get()), ElementsAre(2, 3));
  EXPECT_THAT(read_doubles(floats.get(), Slab{{0, 1}, {2, 2}}), ElementsAre(2, 3, 5, 6));
  EXPECT_EQ(read_attribute<std::string>(floats.get(), "units"), "m");
  EXPECT_EQ(read_attribute<std::string>(floats.get(), "description"), "six numbers");
  EXPECT_THAT(read_integers(file.get(), "/a/integers"), ElementsAre(std::int64_t{1} << 53, -1));
  EXPECT_TRUE(read_doubles(file.get(), "/none").empty());
  EXPECT_EQ(read_text(file.get(), "/text"), long_text);
  EXPECT_TRUE(read_texts(file.get(), "/texts").empty());
  EXPECT_THAT(list_datasets(file.get(), "/a"), ElementsAre("b.weight", "b/floats", "integers"));
  EXPECT_THAT(list_groups(file.get(), "/"), ElementsAre("a", "a/b"));
  EXPECT_TRUE(list_datasets(file.get(), "/absent/below").empty());
  EXPECT_TRUE(exists(file.get(), "/a/b/floats"));
  EXPECT_FALSE(exists(file.get(), "/x/b/floats"));
  const auto error = error_of([&] { read_doubles(file.get(), "/a/absent"); });
  EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(path), HasSubstr("/a/absent")));
}

TEST(Hdf5, PiecesCoverASlabInOrder) {
  const auto pieces = pieces_of({{1, 2, 0}, {2, 3, 4}}, 5);  // rows of 4: one row a piece
  ASSERT_EQ(pieces.size(), 6u);
  EXPECT_THAT(pieces[4].start, ElementsAre(2, 3, 0));
  EXPECT_THAT(pieces[4].count, ElementsAre(1, 1, 4));
  EXPECT_EQ(pieces_of({{0, 0}, {3, 4}}, 8).size(), 2u);     // two rows, then one
  EXPECT_EQ(pieces_of({{0}, {10}}, 3).back().count[0], 1);  // 3 + 3 + 3 + 1
  EXPECT_EQ(pieces_of({{}, {}}, 1).size(), 1u);             // a scalar
}

TEST(Hdf5, UnreadableFilesAreBadInputThatNamesTheFile) {
  const test::ScratchFolder folder;
  const auto whole = folder / "whole.h5";
  {
    const auto file = create_file(whole);
    write_dataset(file.get(), "/values", std::vector<double>(10000, 1.0), "1", "");
  }
  const auto bytes = test::content_of(whole);
  test::write_file(folder / "truncated.h5", bytes.substr(0, bytes.size() / 2));
  test::write_file(folder / "head.h5", bytes.substr(0, 40));
  test::write_file(folder / "empty.h5", "");
  test::write_file(folder / "text.h5", "not an HDF5 file at all");
  for (const auto* name : {"truncated.h5", "head.h5", "empty.h5", "text.h5", "missing.h5", "."}) {
    const auto path = folder / name;
    const auto error = error_of([&] { open_for_reading(path); });
    EXPECT_EQ(error.code(), ExitCode::bad_input) << name;
    EXPECT_THAT(error.what(), HasSubstr(path)) << name;
  }
  EXPECT_THAT(error_of([&] { open_for_reading(folder / "truncated.h5"); }).what(), HasSubstr("truncated"));
}

TEST(Hdf5, AFailedCallCarriesHdf5sOwnMessage) {
  const test::ScratchFolder folder;
  const auto file = create_file(folder / "a.h5");
  write_dataset(file.get(), "/a", std::vector<double>{1}, "1", "");
  const auto error =
      error_of([&] { write_dataset(file.get(), "/a", std::vector<double>{1}, "1", ""); });  // exists
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("a.h5: /a"), HasSubstr("exists")));
}

TEST(Reference, HoldsArraysAndNumericAttributes) {
  const test::ScratchFolder folder;
  const auto path = folder / "reference.h5";
  {
    const auto file = create_file(path);
    write_attribute(file.get(), "loss", 4.5);
    write_attribute<std::int64_t>(file.get(), "valid_tokens", 184);
    write_attribute(file.get(), "source", "elsewhere");
    write_dataset(file.get(), "/logits", {1, 2}, std::vector<double>{1, 2}.data(), "1", "");
    write_dataset(file.get(), "/gradients/b.weight", std::vector<double>{3}, "1", "");
    write_dataset(file.get(), "/gradients/a.weight", std::vector<double>{4}, "1", "");
    write_dataset(file.get(), "/gradients_not", std::vector<double>{4}, "1", "");
    write_attribute(make_group(file.get(), "/after_5_sgd_steps").get(), "losses", std::vector<double>{3, 2});
  }
  const auto reference = read_reference(path);
  EXPECT_EQ(reference.scalar("loss"), 4.5);
  EXPECT_EQ(reference.scalar("valid_tokens"), 184);
  EXPECT_EQ(reference.attributes.count("source"), 0u);
  EXPECT_THAT(reference.array("logits").shape, ElementsAre(1, 2));
  EXPECT_THAT(reference.array("logits").values, ElementsAre(1, 2));
  EXPECT_THAT(reference.names("gradients"), ElementsAre("a.weight", "b.weight"));
  EXPECT_THAT(reference.list("after_5_sgd_steps@losses"), ElementsAre(3, 2));
  EXPECT_THAT(error_of([&] { reference.array("hidden_states/0"); }).what(),
              testing::AllOf(HasSubstr(path), HasSubstr("hidden_states/0")));
  EXPECT_THAT(error_of([&] { reference.scalar("after_5_sgd_steps@losses"); }).what(), HasSubstr("single"));
}

}  // namespace
}  // namespace minisp::io
