// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/deck.hpp"
#include "config/sweep.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <gmock/gmock.h>
#include <map>

using namespace minisp::config;
using minisp::test::error_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

const std::string file = std::string(MINISP_SOURCE_FOLDER) + "/inputs/sweep.toml";  // decks lie beside it
using Overrides = std::vector<std::string>;

const std::string head = R"([sweep]
deck = "tiny.toml"
rounds = 5
[set]
train.steps = 3
train.batch = 4
)";

const std::string product = head + R"(
[[axis]]
name = "model"
[[axis.variant]]
name = "small"
model.layers = 1
train.steps = 7
[[axis.variant]]
name = "large"
model.layers = 3
[[axis]]
key = "train.sequence_length"
name = "S"
values = [64, 128]
[[axis]]
key = "parallel.system"
values = ["ulysses", "basp"]
baseline = "ulysses"
)";

SweepConfig parse(const std::string& text, const Overrides& overrides = {}) {
  return parse_sweep(text, file, overrides);
}
std::string fault(const std::string& text, const Overrides& overrides = {}) {
  return error_of([&] { parse(text, overrides); });
}
std::vector<std::string> names(const SweepConfig& sweep) {
  std::vector<std::string> list;
  for (const auto& one : sweep.cases) list.push_back(one.name);
  return list;
}
std::string line(const std::string& text, const std::string& word) {
  const auto at = text.find(word);
  return "sweep.toml:" + std::to_string(1 + std::count(text.begin(), text.begin() + at, '\n')) + ": ";
}

}  // namespace

TEST(Sweep, AxesMakeEveryCombinationTheLastFastest) {
  const auto sweep = parse(product);
  EXPECT_THAT(names(sweep),
              ElementsAre("small_S64_ulysses", "small_S64_basp", "small_S128_ulysses", "small_S128_basp",
                          "large_S64_ulysses", "large_S64_basp", "large_S128_ulysses", "large_S128_basp"));
  EXPECT_EQ(sweep.rounds, 5);
  for (std::size_t i = 0; i < sweep.cases.size(); ++i) {
    const auto& one = sweep.cases[i];
    EXPECT_EQ(one.config.model.layers, i < 4 ? 1 : 3);
    EXPECT_EQ(one.config.train.sequence_length, i % 4 < 2 ? 64 : 128);
    EXPECT_EQ(one.config.parallel.system, i % 2 == 0 ? System::ulysses : System::basp);
    EXPECT_EQ(one.config.train.batch, 4);              // [set] before the deck
    EXPECT_EQ(one.config.train.steps, i < 4 ? 7 : 3);  // a variant before [set]
    EXPECT_EQ(one.config.train.warmup_steps, load_config(sweep.deck_file).train.warmup_steps);
    EXPECT_EQ(one.baseline, i % 2 == 0 ? std::nullopt : std::optional<std::size_t>(i - 1));
  }
}

TEST(Sweep, ABaselineMayBeAnyVariantOfAnyAxis) {
  auto text = product;
  text.erase(text.rfind("baseline"));
  text.replace(text.find("name = \"model\""), 0, "baseline = \"large\"\n");
  const auto sweep = parse(text);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(sweep.cases[i].baseline, i < 4 ? std::optional<std::size_t>(i + 4) : std::nullopt);
}

TEST(Sweep, CasesMayBeListed) {
  const auto sweep = parse(head + R"(
[[case]]
name = "one"
baseline = "two"
parallel.sharding = "zero3"
[[case]]
name = "two"
)");
  EXPECT_THAT(names(sweep), ElementsAre("one", "two"));
  EXPECT_EQ(sweep.cases[0].baseline, 1U);
  EXPECT_FALSE(sweep.cases[1].baseline);
  EXPECT_EQ(sweep.cases[0].config.parallel.sharding, Sharding::zero3);
}

TEST(Sweep, AConfigurationSaysHowToRepeatItAlone) {
  const auto sweep = parse(product, {"train.learning_rate=0.01", "sweep.folder=there", "sweep.rounds=2"});
  EXPECT_EQ(sweep.folder, "there");
  EXPECT_EQ(sweep.rounds, 2);
  const auto config = config_of(sweep.cases[3], "there/x.h5");
  EXPECT_EQ(config.output.file, "there/x.h5");
  EXPECT_EQ(config.train.learning_rate, 0.01);
  EXPECT_EQ(settings(load_config(sweep.deck_file, config.overrides)), settings(config));
}

TEST(Sweep, TheFolderIsNamedAfterTheFile) {
  EXPECT_EQ(parse(product).folder, "results/sweep");
}

TEST(Sweep, FaultsNameFileLineAndKey) {
  const auto bad = [](const std::string& from, const std::string& to) {
    auto text = product;
    text.replace(text.find(from), from.size(), to);
    return std::make_pair(text, fault(text));
  };
  const auto expect = [&](const std::string& from, const std::string& to, const std::string& key,
                          const std::string& remedy) {
    const auto [text, message] = bad(from, to);
    EXPECT_THAT(message, AllOf(HasSubstr(line(text, to) + key), HasSubstr(remedy))) << to;
  };
  expect("rounds = 5", "ruonds = 5", "sweep.ruonds", "'rounds'");
  expect("rounds = 5", "rounds = 0", "sweep.rounds", "from 1");
  expect("[set]", "[sett]", "sett", "'set'");
  expect("name = \"model\"", "nmae = \"model\"", "axis.nmae", "'name'");
  expect("model.layers = 3", "model.layer = 3", "model.layer", "Did you mean model.layers?");
  expect("model.layers = 3", "model.layers = 0", "model.layers", "case large_S64_ulysses");
  expect("model.layers = 3", "layers = 3", "axis.variant.layers", "written with its table");
  expect("model.layers = 3", "output.file = \"a.h5\"", "output.file", "sweep.folder");
  expect("name = \"large\"", "name = \"lar/ge\"", "axis.variant.name", "letters, digits");
  expect("baseline = \"ulysses\"", "baseline = \"ulises\"", "axis.baseline", "'ulysses'");
  expect("values = [64, 128]", "values = []", "axis.values", "[one, two]");
  expect("values = [64, 128]", "train.clip = 3", "axis.train", "Known: name, key, values");
  expect("values = [64, 128]", "values = [64, true]", "train.sequence_length", "whole number");
}

TEST(Sweep, ContradictionsAreRefused) {
  EXPECT_THAT(fault(product, {"parallel.system=basp"}),
              AllOf(HasSubstr("command line: parallel.system: the key is set at "), HasSubstr("too")));
  EXPECT_THAT(fault(product + "[[axis]]\nkey = \"model.layers\"\nvalues = [2]\n"), HasSubstr("is set at"));
  EXPECT_THAT(fault(product + "[[case]]\nname = \"one\"\n"), HasSubstr("has axes too"));
  EXPECT_THAT(fault(product + "[[axis]]\nkey = \"train.seed\"\nvalues = [1]\nbaseline = \"seed1\"\n"),
              HasSubstr("two axes"));
  EXPECT_THAT(fault(product + "[[axis]]\nkey = \"train.seed\"\nvalues = [1, 1]\n"), HasSubstr("two cases"));
  EXPECT_THAT(fault(head), HasSubstr("no cases"));
  EXPECT_THAT(fault("[sweep]\n"), HasSubstr("sweep.deck: no deck is named"));
  EXPECT_THAT(fault("[sweep]\ndeck = \"none.toml\"\n[[case]]\nname = \"one\"\n"),
              AllOf(HasSubstr("inputs/none.toml: "), HasSubstr("case one")));
  EXPECT_THAT(fault(product, {"sweep.runds=3"}), HasSubstr("'rounds'"));
}

TEST(Sweep, MoreCasesThanAnyoneWaitsForAreRefused) {
  std::string values = "0", text = head;
  for (int i = 1; i < 101; ++i) values += ", " + std::to_string(i);
  for (const char* key : {"train.seed", "data.seed"})
    text += std::string("[[axis]]\nkey = \"") + key + "\"\nvalues = [" + values + "]\n";
  EXPECT_THAT(fault(text), HasSubstr("more than 10000 cases"));
}
