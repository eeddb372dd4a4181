// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Sealed files: whole ones are read, and whatever byte of one is changed, it is refused by name.
#include "io/output_file.hpp"
#include "io/seal.hpp"
#include "unit/io/scratch_folder.hpp"
#include "util/error.hpp"

#include <gtest/gtest.h>

#include <gmock/gmock.h>
#include <numeric>
#include <random>

namespace minisp::io {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SealTest : public testing::Test {
 protected:
  /// A file with a dealt-out array of each kind of hyperslab, texts and attributes.
  void write(const std::string& path) {
    const int rank = world.rank(), ranks = world.size();
    OutputFile file(MPI_COMM_WORLD, path, {.overwrite = true, .sealed = true});
    const Index rows = 60, begin = rows * rank / ranks, end = rows * (rank + 1) / ranks;
    std::vector<float> values(static_cast<std::size_t>((end - begin) * 7));
    std::iota(values.begin(), values.end(), static_cast<float>(begin * 7));
    file.write_global("/rows", {rows, 7}, {{{begin, 0}, {end - begin, 7}}}, values.data(), "1", "");
    // Columns, of which every rank has some of each of two blocks of rows.
    std::vector<double> columns;
    std::vector<Slab> slabs;
    for (const Index first : {Index{0}, Index{3}}) {
      slabs.push_back({{first, begin}, {3, end - begin}});
      for (Index i = 0; i < 3 * (end - begin); ++i) columns.push_back(0.5 + static_cast<double>(i));
    }
    file.write_global("/columns", {6, rows}, slabs, columns.data(), "1", "");
    file.write_on_root(4096, [](hid_t root) {
      write_attribute<std::int64_t>(root, "steps_done", 12);
      write_text(root, "/text", "some text", "text");
    });
    file.commit();
  }
  std::string error_of(const std::string& path) {
    comm::barrier(world);
    std::string message;
    try {
      require_seal(world, path, "The remedy");
    } catch (const Error& error) {
      EXPECT_TRUE(error.agreed());
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      message = error.what();
    }
    comm::barrier(world);
    return message;
  }
  void replace(const std::string& path, const std::string& content) {
    comm::barrier(world);
    if (world.rank() == 0) test::write_file(path, content);
  }

  const test::ScratchFolder folder;
  const comm::Communicator world = comm::Communicator::world();
};

TEST_F(SealTest, AWholeFileIsGoodAndHdf5ReadsIt) {
  const auto path = folder / "a.h5";
  write(path);
  EXPECT_EQ(error_of(path), "");
  const auto file = open_for_reading(path);
  EXPECT_EQ(read_doubles(file.get(), "/rows")[59 * 7 + 6], 59 * 7 + 6);
  EXPECT_EQ(read_attribute<std::int64_t>(file.get(), "steps_done"), 12);
}

TEST_F(SealTest, AnyFlippedBitIsNoticed) {
  const auto path = folder / "a.h5";
  write(path);
  comm::barrier(world);
  const std::string whole = test::content_of(path);
  std::mt19937 random(7);
  std::vector<std::size_t> offsets(400);
  for (auto& offset : offsets) offset = random() % whole.size();
  for (std::size_t i = 0; i < 80; ++i) offsets.push_back(i);  // the seal itself
  offsets.push_back(511);
  offsets.push_back(whole.size() - 1);
  for (const auto offset : offsets) {
    std::string damaged = whole;
    damaged[offset] = static_cast<char>(damaged[offset] ^ (1 << (random() % 8)));
    replace(path, damaged);
    EXPECT_THAT(error_of(path), AllOf(HasSubstr(path), HasSubstr("damaged"), HasSubstr("The remedy")))
        << "byte " << offset << " of " << whole.size();
  }
  replace(path, whole);
  EXPECT_EQ(error_of(path), "");
}

TEST_F(SealTest, OtherLengthsAndExchangedPartsAreNoticed) {
  const auto path = folder / "a.h5";
  write(path);
  comm::barrier(world);
  const std::string whole = test::content_of(path);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{100}, std::size_t{512}, whole.size() / 2, whole.size() - 1}) {
    replace(path, whole.substr(0, size));
    EXPECT_THAT(error_of(path), AllOf(HasSubstr(path), HasSubstr("bytes"))) << size;
  }
  replace(path, whole + '\0');
  EXPECT_THAT(error_of(path), HasSubstr("damaged"));
  std::string exchanged = whole;
  const auto array = whole.size() - 2000;
  std::swap_ranges(exchanged.begin() + static_cast<std::ptrdiff_t>(array),
                   exchanged.begin() + static_cast<std::ptrdiff_t>(array) + 64,
                   exchanged.begin() + static_cast<std::ptrdiff_t>(array) + 128);
  if (exchanged != whole) {
    replace(path, exchanged);
    EXPECT_THAT(error_of(path), HasSubstr("damaged"));
  }
  replace(path, "");
  EXPECT_NE(error_of(path), "");
  EXPECT_THAT(error_of(folder / "none.h5"), HasSubstr("none.h5"));
}

/// The checksum is that of the numbers in memory, not of what has come to be in the file.
TEST_F(SealTest, AWriteThatWentWrongIsNoticed) {
  const auto path = folder / "a.h5";
  OutputFile file(MPI_COMM_WORLD, path, {.overwrite = true, .sealed = true});
  const std::vector<double> values(1000, 1.5);
  const std::vector<Slab> all{{{0}, {1000}}}, nothing;
  file.write_global("/x", {1000}, world.rank() == 0 ? all : nothing, values.data(), "1", "");
  file.write_on_root(64, [](hid_t root) { write_attribute(root, "a", std::string("b")); });
  if (world.rank() == 0) {
    auto content = test::content_of(path + ".partial");
    const double value = 1.5;
    const std::string pattern(reinterpret_cast<const char*>(&value), sizeof value);
    const auto place = content.find(pattern + pattern);
    ASSERT_NE(place, std::string::npos);
    content[place + 808] = static_cast<char>(content[place + 808] ^ 1);
    test::write_file(path + ".partial", content);
  }
  file.commit();
  EXPECT_THAT(error_of(path), HasSubstr("damaged"));
}

TEST(Seal, PartsAddUp) {
  std::vector<char> bytes(1003);
  std::mt19937 random(3);
  for (auto& byte : bytes) byte = static_cast<char>(random());
  const auto whole = sum_of_words(512, bytes.data(), bytes.size());
  for (const std::size_t cut : {0u, 4u, 40u, 1000u})
    EXPECT_EQ(sum_of_words(512, bytes.data(), cut) +
                  sum_of_words(512 + static_cast<std::int64_t>(cut), bytes.data() + cut, bytes.size() - cut),
              whole);
  EXPECT_NE(sum_of_words(516, bytes.data(), bytes.size()), whole);
}

}  // namespace
}  // namespace minisp::io
