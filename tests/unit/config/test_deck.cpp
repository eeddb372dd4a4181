// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/deck.hpp"
#include "config/presets.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <map>
#include <set>

using namespace minisp::config;
using minisp::test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

namespace {

const std::string source_folder = MINISP_SOURCE_FOLDER;
const std::string reference = source_folder + "/tests/reference/";
using Overrides = std::vector<std::string>;

const std::string small = R"([model]
preset = "llama-3.2-1b"
layers = 2
[train]
steps = 7
)";

Config parse(const std::string& text, const Overrides& overrides = {}) {
  return parse_config(text, "deck.toml", overrides);
}
std::string fault(const std::string& text, const Overrides& overrides = {}) {
  return error_of([&] { parse(text, overrides); });
}
/// The message for the small deck with one key more on the command line.
std::string fault_of(const std::string& key_and_value) {
  return fault(small, {key_and_value});
}

}  // namespace

TEST(Deck, EveryDeckOfInputsParses) {
  int decks = 0;
  std::set<std::string> models;
  for (const auto& file : std::filesystem::directory_iterator(source_folder + "/inputs")) {
    if (file.path().extension() != ".toml") continue;
    ++decks;
    const Config config = load_config(file.path().string());
    models.insert(config.model.name);
    EXPECT_TRUE(config.notes.empty()) << file.path();
    const bool full = !file.path().stem().string().ends_with("-laptop") &&
                      preset_names().end() != std::find(preset_names().begin(), preset_names().end(),
                                                        file.path().stem().string());
    if (full) {
      EXPECT_EQ(config.model.parameters(), preset(config.model.name).parameters()) << file.path();
    } else {
      EXPECT_LT(config.model.parameters(), 40'000'000) << file.path() << " is no deck for a laptop";
      EXPECT_EQ(config.model.heads % 8, 0) << file.path();
    }
  }
  EXPECT_EQ(decks, 16);
  EXPECT_EQ(models.size(), 7u);
}

// Each system has to run on 1, 2, 3, 4, 6 and 8 ranks.
TEST(Deck, TinyDividesByManyRankCounts) {
  const Config tiny = load_config(source_folder + "/inputs/tiny.toml");
  for (const int ranks : {1, 2, 3, 4, 6, 8}) {
    EXPECT_EQ(tiny.train.batch % ranks, 0);
    EXPECT_EQ(tiny.train.sequence_length % ranks, 0);
    EXPECT_EQ(tiny.model.heads % ranks, 0);
    EXPECT_TRUE(tiny.model.kv_heads % ranks == 0 || ranks % tiny.model.kv_heads == 0);
  }
}

TEST(Deck, SizesOverrideThePresetAndTheCommandLineBoth) {
  const Config config =
      parse(small, {"train.steps=9", "model.kv_heads=4", "output.file=a.h5", "parallel.system=basp",
                    "train.learning_rate=1", "train.precision=\"fp64\""});
  EXPECT_EQ(config.model.hidden, 2048);
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.kv_heads, 4);
  EXPECT_EQ(config.train.steps, 9);
  EXPECT_EQ(config.train.learning_rate, 1.0);
  EXPECT_EQ(config.train.precision, Precision::fp64);
  EXPECT_EQ(config.parallel.system, System::basp);
  EXPECT_EQ(config.output.file, "a.h5");
  EXPECT_EQ(config.deck_text, small);
  EXPECT_EQ(config.overrides.size(), 6u);
}

TEST(Deck, WordsOnTheCommandLineNeedNoQuotes) {
  // A file may be called like a number, a date or nothing in TOML at all.
  for (const std::string name : {"12", "1e5", "2024-01-01", "true", "a b.h5", "a\"b", "[1]", ""})
    EXPECT_EQ(parse(small, {"output.file=" + name}).output.file, name);
  EXPECT_EQ(parse(small, {"output.file=\"a.h5\""}).output.file, "a.h5");
  EXPECT_EQ(parse(small, {"output.file='a=b.h5'"}).output.file, "a=b.h5");
}

TEST(Deck, UnknownKeysAreNamedWithLineAndSuggestion) {
  EXPECT_THAT(fault(small + "stpes = 3\n"),
              AllOf(StartsWith("deck.toml:6: train.stpes: "), HasSubstr("train.steps")));
  EXPECT_THAT(fault(small + "[modle]\n"), AllOf(StartsWith("deck.toml:6: modle: "), HasSubstr("'model'")));
  EXPECT_THAT(fault("steps = 3\n" + small),
              AllOf(StartsWith("deck.toml:1: steps: "), HasSubstr("train.steps")));
  EXPECT_THAT(fault(small + "[train.more]\nx = 1\n"), StartsWith("deck.toml:6: train.more"));
  // The same word in another table.
  EXPECT_THAT(fault_of("model.sequence_length=8"),
              AllOf(StartsWith("command line: model.sequence_length: "), HasSubstr("train.sequence_length")));
  EXPECT_THAT(fault_of("=3"), HasSubstr("key=value"));
  EXPECT_THAT(fault_of("train.steps"), HasSubstr("key=value"));
  EXPECT_THAT(fault_of("train.steps =3"), HasSubstr("train.steps"));
}

TEST(Deck, WrongTypesAndRangesNameKeyAndValue) {
  EXPECT_THAT(
      fault("[model]\npreset = \"gpt2\"\nlayers = \"two\"\n"),
      AllOf(StartsWith("deck.toml:3: model.layers: "), HasSubstr("\"two\""), HasSubstr("whole number")));
  EXPECT_THAT(fault_of("train.steps=1.5"), HasSubstr("1.5"));
  EXPECT_THAT(fault_of("train.steps=0"), AllOf(HasSubstr("the value is 0"), HasSubstr(">= 1")));
  EXPECT_THAT(fault_of("train.steps=[1]"), HasSubstr("array"));
  EXPECT_THAT(fault_of("train.steps=99999999999999999999"), HasSubstr("train.steps"));
  EXPECT_THAT(fault_of("train.batch=2000000000"), HasSubstr("<= 1048576"));
  EXPECT_THAT(fault_of("train.learning_rate=fast"), HasSubstr("\"fast\""));
  EXPECT_THAT(fault_of("train.learning_rate=-1"), HasSubstr(">= 0"));
  EXPECT_THAT(fault_of("train.learning_rate=nan"), HasSubstr("finite"));
  EXPECT_THAT(fault_of("train.beta1=1"), HasSubstr("< 1"));
  EXPECT_THAT(fault_of("train.epsilon=0"), HasSubstr("> 0"));
  EXPECT_THAT(fault_of("output.overwrite=1"), HasSubstr("true or false"));
  EXPECT_THAT(fault_of("parallel.system=bsap"),
              AllOf(HasSubstr("Did you mean 'basp'"), HasSubstr("data-parallel")));
  EXPECT_THAT(fault(small + "[output]\nfile = 3\n"), HasSubstr("string in quotes"));
  EXPECT_THAT(fault("[model]\npreset = 3\n"), HasSubstr("deck.toml:2: model.preset"));
}

TEST(Deck, WhatIsNoTomlNamesTheLine) {
  EXPECT_THAT(fault("[model]\npreset = \n"), AllOf(StartsWith("deck.toml:2: "), HasSubstr("TOML")));
  EXPECT_THAT(fault(small + "steps = 8\n"), AllOf(StartsWith("deck.toml:6: "), HasSubstr("TOML")));  // twice
  EXPECT_THAT(fault("[\n"), StartsWith("deck.toml:1: "));
  EXPECT_THAT(fault("\xff\xfe"), StartsWith("deck.toml:1: "));
  EXPECT_THAT(fault(small, {"train.steps=8", "train.steps=9"}), HasSubstr("twice"));
}

TEST(Deck, AModelHasToBeNamedOnce) {
  EXPECT_THAT(fault(""), HasSubstr("no model is named"));
  EXPECT_THAT(fault("[model]\npreset = \"gpt2\"\nfolder = \"x\"\n"), HasSubstr("a preset and a folder"));
  EXPECT_THAT(fault_of("model.preset=llama-3.2-1B"), HasSubstr("Did you mean 'llama-3.2-1b'"));
  EXPECT_THAT(fault_of("model.folder=/no/such/folder"),
              AllOf(HasSubstr("/no/such/folder"), HasSubstr("no folder")));
  // The command line's model takes the place of the deck's, whichever key names it.
  EXPECT_EQ(parse(small, {"model.preset=qwen2.5-3b"}).model.name, "qwen2.5-3b");
  const Config config = parse("[model]\npreset = \"llama-3.2-1b\"\n",
                              {"model.folder=" + reference + "gpt2", "train.sequence_length=48"});
  EXPECT_EQ(config.model.family, Family::gpt2);
  EXPECT_EQ(config.model_folder, reference + "gpt2");
}

TEST(Deck, FilesThatCannotBeReadAreNamed) {
  EXPECT_THAT(error_of([] { load_config("/no/such/deck.toml"); }), StartsWith("/no/such/deck.toml: "));
  EXPECT_THAT(error_of([] { load_config(source_folder); }), HasSubstr("folder"));
}

TEST(Deck, SizesOfTheModelAreCheckedTogether) {
  EXPECT_THAT(fault("[model]\npreset = \"llama-3.2-1b\"\nkv_heads = 5\n"),
              StartsWith("deck.toml:3: model.kv_heads: "));
  EXPECT_THAT(fault_of("model.head_dim=7"), HasSubstr("command line: model.head_dim: "));
  EXPECT_THAT(fault("[model]\npreset = \"qwen3-8b\"\nrope_factor = 4.0\n"), HasSubstr("not scaled"));
  EXPECT_THAT(fault("[model]\npreset = \"gpt2\"\nrope_scaling = \"llama3\"\n"),
              HasSubstr("learned positions"));
  const Config scaled = parse("[model]\npreset = \"qwen3-8b\"\nrope_scaling = \"llama3\"\nrope_factor = 4\n");
  EXPECT_EQ(scaled.model.rope_scaling->factor, 4.0);
  EXPECT_FALSE(parse(small, {"model.rope_scaling=none"}).model.rope_scaling.has_value());
}

TEST(Deck, KeysThatContradictEachOtherAreRefused) {
  EXPECT_THAT(fault_of("model.weights=folder"), HasSubstr("none is named"));
  EXPECT_THAT(fault("", {"model.folder=" + reference + "gpt2", "model.weights=folder", "model.layers=1"}),
              AllOf(HasSubstr("model.layers"), HasSubstr("config.json says otherwise")));
  EXPECT_NO_THROW(
      parse("", {"model.folder=" + reference + "gpt2", "model.weights=folder", "train.sequence_length=48"}));
  EXPECT_THAT(fault_of("data.source=tokens"), HasSubstr("data.file"));
  EXPECT_THAT(fault_of("data.end_of_document=128256"), HasSubstr("outside the vocabulary of 128256"));
  EXPECT_THAT(fault_of("data.end_of_document=0"), HasSubstr("data.mean_document_length"));
  EXPECT_THAT(fault_of("data.mean_document_length=10"), HasSubstr("data.end_of_document"));
  EXPECT_THAT(fault_of("data.mean_document_length=0.5"), HasSubstr("at least 1"));
  EXPECT_THAT(fault_of("data.symbols=3"), HasSubstr("only 3 tokens"));
  EXPECT_THAT(fault(small, {"data.source=text", "data.file=x", "model.vocabulary=255"}),
              HasSubstr("256 or more"));
  EXPECT_THAT(fault_of("train.learning_rate_minimum=1"), HasSubstr("end above"));
  EXPECT_THAT(fault("[model]\npreset = \"gpt2\"\n[train]\nsequence_length = 1025\n"),
              AllOf(StartsWith("deck.toml:4: "), HasSubstr("1024 learned positions")));
  EXPECT_THAT(fault_of("parallel.sequence_degree=2"), HasSubstr("does not split sequences"));
  EXPECT_THAT(fault_of("output.logits=true"), HasSubstr("no file to write to"));
  EXPECT_EQ(parse(small, {"train.sequence_length=200000"}).notes.size(), 1u);
}

TEST(Deck, EffectiveDeckGivesTheSameConfiguration) {
  const std::string folder = "[model]\nfolder = \"" + reference + "llama-gqa-scaled-rope\"\n";
  for (const std::string& text : {small, std::string("[model]\npreset = \"gpt2\"\n"),
                                  std::string("[model]\npreset = \"qwen3-8b\"\n"), folder}) {
    const Config first =
        parse(text, {"train.learning_rate=0.1", "train.epsilon=1e-300", "data.seed=9223372036854775807",
                     "data.end_of_document=3", "data.mean_document_length=5.5",
                     "output.file=odd \"name\"\\\t.h5", "output.gradients=true"});
    const std::string dump = effective_deck(first);
    const Config second = parse_config(dump, "dump");
    EXPECT_EQ(effective_deck(second), dump);
    EXPECT_EQ(second.train.learning_rate, 0.1);
    EXPECT_EQ(second.train.epsilon, 1e-300);
    EXPECT_EQ(second.data.seed, 9223372036854775807u);
    EXPECT_EQ(second.data.mean_document_length, 5.5);
    EXPECT_EQ(second.output.file, "odd \"name\"\\\t.h5");
    EXPECT_EQ(second.model.parameters(), first.model.parameters());
    EXPECT_EQ(second.model.rope_scaling.has_value(), first.model.rope_scaling.has_value());
  }
}

// The list that help and documentation print is the list that is parsed: each key can be set to its default.
TEST(Deck, EveryDescribedKeyCanBeSet) {
  std::map<std::string, int> seen;
  for (const KeyDescription& key : describe_keys()) {
    EXPECT_EQ(++seen[key.key], 1) << key.key;
    EXPECT_FALSE(key.type.empty() || key.description.empty()) << key.key;
    EXPECT_THAT(keys_help(), HasSubstr(key.key + "\n"));
    if (key.default_value.empty() || key.default_value == "preset") continue;
    EXPECT_NO_THROW(parse(small.substr(0, small.find("[train]")), {key.key + "=" + key.default_value}))
        << key.key;
  }
  EXPECT_GE(seen.size(), 50u);
  // No key of a deck is left out of the description, and none is described that the dump does not hold.
  const std::string dump = effective_deck(parse(small));
  const auto lines = std::count(dump.begin(), dump.end(), '=');
  EXPECT_EQ(static_cast<std::size_t>(lines), seen.size() - 1) << "all but model.folder";
}
