// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "support/error_of.hpp"
#include "train/token_source_synthetic.hpp"
#include "unit/io/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <map>
#include <numeric>
#include <set>

using namespace minisp;
using minisp::test::error_of;
using minisp::test::ScratchFolder;
using minisp::test::write_file;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using train::make_token_source;
using train::SyntheticSource;

namespace {

using Row = std::vector<std::int32_t>;

config::Config synthetic(std::int64_t vocabulary, std::int64_t symbols, std::int64_t branching,
                         double documents = 0) {
  config::Config config;
  config.model.vocabulary = vocabulary;
  config.data.symbols = symbols;
  config.data.branching = branching;
  config.data.mean_document_length = documents;
  config.data.end_of_document = documents > 0 ? 7 : -1;
  return config;
}

config::Config file_config(const std::string& file, config::DataSource source, std::int64_t length,
                           std::int64_t vocabulary = 1000) {
  config::Config config;
  config.model.vocabulary = vocabulary;
  config.data.source = source;
  config.data.file = file;
  config.train.sequence_length = length;
  return config;
}

Row row_of(const train::TokenSource& source, std::int64_t row, std::size_t size) {
  Row out(size);
  source.row(row, out);
  return out;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

TEST(SyntheticTokens, ARowIsAFunctionOfSeedAndNumberAlone) {
  auto config = synthetic(1000, 64, 4, 20);
  const SyntheticSource source(config), same(config);
  const Row row = row_of(source, 5, 200);
  row_of(same, 17, 50);
  EXPECT_EQ(row_of(same, 5, 200), row);
  // A shorter row is the beginning of a longer one: a token depends on its position, not on the row's length.
  EXPECT_EQ(row_of(source, 5, 80), Row(row.begin(), row.begin() + 80));
  EXPECT_NE(row_of(source, 6, 200), row);
  EXPECT_NE(row_of(source, 5 + (std::int64_t{1} << 32), 200), row);
  config.data.seed = 2;
  EXPECT_NE(row_of(SyntheticSource(config), 5, 200), row);
  // Written down once: rows that change between versions would make results incomparable.
  EXPECT_EQ(Row(row.begin(), row.begin() + 6), (Row{906, 7, 110, 16, 406, 500}));
}

TEST(SyntheticTokens, SuccessorsAreDistinctAndTheirProbabilitiesSumToOne) {
  for (const double documents : {0.0, 12.5}) {
    const auto config = synthetic(1000, 64, 5, documents);
    const SyntheticSource source(config);
    std::set<std::int32_t> symbols;
    const Row row = row_of(source, 0, 5000);
    for (const auto token : row)
      if (token != config.data.end_of_document) symbols.insert(token);
    EXPECT_EQ(symbols.size(), 64u);
    EXPECT_GT(*symbols.rbegin(), 900) << "tokens are spread over the vocabulary";
    EXPECT_LT(*symbols.rbegin(), 1000);
    for (const auto token : symbols) {
      const auto list = source.successors(token);
      std::set<std::int32_t> distinct;
      double total = 0;
      for (const auto& [next, probability] : list) {
        distinct.insert(next);
        total += probability;
      }
      EXPECT_EQ(list.size(), documents > 0 ? 6u : 5u);
      EXPECT_EQ(distinct.size(), list.size());
      EXPECT_NEAR(total, 1, 1e-15);
    }
  }
}

// The loss of a model that knows the language, on valid tokens (those not predicted from an end of document),
// is the entropy rate. The sample mean of n log-likelihoods has standard error deviation / sqrt(n); the
// tolerance is five of them (and the rounding of a long sum, 1e-9), so that a wrong formula (1 % of the rate,
// say) fails and chance does not.
TEST(SyntheticTokens, EntropyRateIsTheLossOfThePerfectModel) {
  struct Case {
    std::int64_t vocabulary, symbols, branching;
    double documents;
  };
  for (const Case& c : {Case{512, 64, 4, 0}, Case{97, 256, 8, 0}, Case{300, 20, 4, 30}, Case{11, 10, 2, 3},
                        Case{50, 8, 1, 10}, Case{50, 8, 3, 1}, Case{40, 40, 32, 100}}) {
    const auto config = synthetic(c.vocabulary, c.symbols, c.branching, c.documents);
    const SyntheticSource source(config);
    std::map<std::pair<std::int32_t, std::int32_t>, double> minus_log;
    for (std::int32_t token = 0; token < c.vocabulary; ++token)
      for (const auto& [next, probability] : source.successors(token))
        if (probability > 0) minus_log[{token, next}] = -std::log(probability);
    double sum = 0, squares = 0, n = 0;
    for (std::int64_t r = 0; r < 200; ++r) {
      const Row row = row_of(source, r, 1001);
      for (std::size_t i = 0; i + 1 < row.size(); ++i) {
        if (row[i] == config.data.end_of_document) continue;
        const auto found = minus_log.find({row[i], row[i + 1]});
        ASSERT_TRUE(found != minus_log.end()) << row[i] << " is followed by " << row[i + 1];
        sum += found->second;
        squares += found->second * found->second;
        ++n;
      }
    }
    const double mean = sum / n, deviation = std::sqrt(std::max(0.0, squares / n - mean * mean));
    EXPECT_NEAR(*source.entropy_rate(), mean, 5 * deviation / std::sqrt(n) + 1e-9)
        << c.vocabulary << " " << c.branching << " " << c.documents;
  }
  // 1/2, 1/4, 1/8, 1/8: 1.75 bits.
  EXPECT_NEAR(*SyntheticSource(synthetic(512, 64, 4)).entropy_rate(), 1.75 * std::log(2.0), 1e-15);
}

TEST(SyntheticTokens, DocumentsHaveTheirMeanLength) {
  const auto config = synthetic(1000, 64, 4, 25);
  const SyntheticSource source(config);
  std::int64_t ends = 0, others = 0;
  for (std::int64_t r = 0; r < 100; ++r) {
    const Row row = row_of(source, r, 1000);
    EXPECT_NE(row[0], 7) << "a row begins with a token of a document";
    for (std::size_t i = 0; i < row.size(); ++i) {
      ++(row[i] == 7 ? ends : others);
      EXPECT_FALSE(i > 0 && row[i] == 7 && row[i - 1] == 7) << "an empty document";
    }
  }
  // 4000 documents: the mean of a geometric length has relative standard error 1/sqrt(4000) = 1.6 %.
  EXPECT_NEAR(static_cast<double>(others) / static_cast<double>(ends), 25, 25 * 0.08);
  // Without documents no token ends one.
  const auto plain = synthetic(10, 10, 4);
  const Row row = row_of(SyntheticSource(plain), 0, 2000);
  EXPECT_EQ(std::set<std::int32_t>(row.begin(), row.end()).size(), 10u);
}

TEST(TokenFile, ReadsTheRowsOfTheReferenceModels) {
  const std::string folder = std::string(MINISP_SOURCE_FOLDER) + "/tests/reference/";
  auto config = file_config(folder + "gpt2/tokens.bin", config::DataSource::tokens, 48, 97);
  config.data.row_stride = 49;
  const auto source = make_token_source(config);
  EXPECT_EQ(source->rows_per_epoch(), 4);
  EXPECT_FALSE(source->entropy_rate().has_value());
  // The file's first bytes are 58 00 29 00 5e 00 5c 00.
  const Row row = row_of(*source, 0, 49);
  EXPECT_EQ(Row(row.begin(), row.begin() + 4), (Row{0x58, 0x29, 0x5e, 0x5c}));
  const std::string bytes = test::content_of(config.data.file);
  std::uint16_t last = 0;
  std::memcpy(&last, bytes.data() + bytes.size() - 2, 2);
  EXPECT_EQ(row_of(*source, 3, 49).back(), last);
}

TEST(TokenFile, RowsOverlapByOneTokenAndWrapAround) {
  const ScratchFolder folder;
  std::vector<std::uint16_t> tokens(23);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
  write_file(folder / "t.bin", bytes_of(tokens));
  auto config = file_config(folder / "t.bin", config::DataSource::tokens, 5);
  const auto source = make_token_source(config);
  EXPECT_EQ(source->rows_per_epoch(), 4);  // 0..5, 5..10, 10..15, 15..20; 20..25 does not fit
  EXPECT_THAT(row_of(*source, 0, 6), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(row_of(*source, 3, 6), ElementsAre(15, 16, 17, 18, 19, 20));
  EXPECT_THAT(row_of(*source, 4, 6), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(row_of(*source, 4'000'000'000'001, 6), ElementsAre(5, 6, 7, 8, 9, 10));
  config.data.row_stride = 17;  // the last row ends with the file
  EXPECT_EQ(make_token_source(config)->rows_per_epoch(), 2);
  EXPECT_EQ(row_of(*make_token_source(config), 1, 6).back(), 22);
}

TEST(TokenFile, WideTokensAndBytes) {
  const ScratchFolder folder;
  write_file(folder / "wide.bin", bytes_of<std::uint32_t>({70000, 1, 4294967295u, 2, 3}));
  auto config = file_config(folder / "wide.bin", config::DataSource::tokens, 1, 128256);
  config.data.token_type = config::TokenType::uint32;
  const auto source = make_token_source(config);
  EXPECT_THAT(row_of(*source, 0, 2), ElementsAre(70000, 1));
  EXPECT_THAT(row_of(*source, 3, 2), ElementsAre(2, 3));
  EXPECT_THAT(
      error_of([&] { row_of(*source, 1, 2); }),
      AllOf(HasSubstr("wide.bin: token 2 (byte 8) is 4294967295"), HasSubstr("vocabulary of 128256")));

  write_file(folder / "text", "Hi \xe4\xff\n");
  const auto text = make_token_source(file_config(folder / "text", config::DataSource::text, 5));
  EXPECT_THAT(row_of(*text, 0, 6), ElementsAre('H', 'i', ' ', 0xe4, 0xff, '\n'));
}

TEST(TokenFile, FaultsNameTheFile) {
  const ScratchFolder folder;
  const auto fault = [&](const std::string& content, std::int64_t length, config::DataSource source) {
    write_file(folder / "f", content);
    return error_of([&] { make_token_source(file_config(folder / "f", source, length)); });
  };
  using config::DataSource;
  EXPECT_THAT(fault("abc", 1, DataSource::tokens),
              AllOf(HasSubstr("/f: "), HasSubstr("3 bytes"), HasSubstr("cut off")));
  EXPECT_THAT(fault("abcd", 2, DataSource::tokens), AllOf(HasSubstr("2 tokens"), HasSubstr("takes 3")));
  EXPECT_THAT(fault("", 1, DataSource::text), HasSubstr("0 tokens"));
  EXPECT_THAT(error_of([&] { make_token_source(file_config(folder / "none", DataSource::text, 1)); }),
              HasSubstr("none: "));
  EXPECT_THAT(error_of([&] { make_token_source(file_config(folder.path(), DataSource::text, 1)); }),
              HasSubstr("no regular file"));
  write_file(folder / "f", bytes_of<std::uint16_t>({1, 1000}));
  const auto source = make_token_source(file_config(folder / "f", DataSource::tokens, 1));
  EXPECT_THAT(error_of([&] { row_of(*source, 0, 2); }), HasSubstr("token 1 (byte 2) is 1000"));
}
