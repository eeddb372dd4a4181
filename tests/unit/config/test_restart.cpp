// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/deck.hpp"
#include "config/restart.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <gmock/gmock.h>

using namespace minisp::config;
using minisp::test::error_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

Config deck(const std::vector<std::string>& overrides = {}, const std::string& preset = "llama-3.2-1b") {
  return parse_config("[model]\npreset = \"" + preset + "\"\nlayers = 2\n", "deck.toml", overrides);
}
std::vector<std::string> restart(const std::vector<std::string>& now) {
  return check_restart(deck(now), saved_settings(deck()), "saved/step-000004.h5");
}
std::string refusal(const std::vector<std::string>& now) {
  return error_of([&] { restart(now); });
}

}  // namespace

TEST(Restart, WhatIsComputedMustAgree) {
  for (const std::string setting :
       {"model.layers=3", "model.rope_theta=1.0", "model.tied_head=false", "data.seed=2",
        "data.source=\"text\"", "train.batch=4", "train.sequence_length=64", "train.accumulation=2",
        "train.precision=fp64", "train.optimizer=sgd", "train.beta2=0.99", "train.weight_decay=0.0",
        "train.clip=0.0", "train.seed=3"}) {
    const std::string key = setting.substr(0, setting.find('='));
    std::vector<std::string> now{setting};
    if (key == "data.source") now.push_back("data.file=x");
    EXPECT_THAT(refusal(now), AllOf(HasSubstr("saved/step-000004.h5: "), HasSubstr(key + " was "),
                                    HasSubstr("Set " + key + "=")));
  }
  EXPECT_THAT(error_of([&] {
                check_restart(deck({"model.rope_scaling=none"}, "llama-3.2-1b"), saved_settings(deck()), "f");
              }),
              HasSubstr("f: model."));
}

TEST(Restart, AnotherFamilyIsRefusedEvenWithTheSameSizes) {
  const auto now = deck({"model.max_positions=8192"}, "qwen2.5-3b");
  auto saved = saved_settings(now);
  const auto family =
      std::find_if(saved.begin(), saved.end(), [](const auto& pair) { return pair.first == "model.family"; });
  ASSERT_NE(family, saved.end());
  family->second = "\"qwen3\"";
  EXPECT_THAT(error_of([&] { check_restart(now, saved, "f"); }),
              AllOf(HasSubstr("model.family was \"qwen3\""), HasSubstr("\"qwen2\" now")));
}

TEST(Restart, HowItIsComputedMayChange) {
  EXPECT_THAT(restart({}), ElementsAre());
  EXPECT_THAT(
      restart({"parallel.system=ulysses", "parallel.sharding=zero3", "train.steps=99", "train.warmup_steps=0",
               "train.recompute=full", "verify.enabled=false", "output.file=a.h5", "checkpoint.folder=b",
               "checkpoint.every=7", "inject.slow_rank=1", "inject.slow_factor=2.0"}),
      ElementsAre());
}

TEST(Restart, TheScheduleMayChangeWithANote) {
  EXPECT_THAT(restart({"train.learning_rate=1e-5"}),
              ElementsAre(AllOf(HasSubstr("train.learning_rate"), HasSubstr("1e-05"), HasSubstr("0.0003"))));
}

TEST(Restart, KeysThatCameOrWentCountAsTheirDefaults) {
  auto saved = saved_settings(deck());
  std::erase_if(saved, [](const auto& pair) { return pair.first == "train.clip"; });
  EXPECT_THAT(check_restart(deck(), saved, "f"), ElementsAre());
  EXPECT_THAT(error_of([&] { check_restart(deck({"train.clip=0.5"}), saved, "f"); }),
              HasSubstr("train.clip was 1.0"));
  saved = saved_settings(deck());
  saved.emplace_back("train.later", "3");
  EXPECT_THAT(error_of([&] { check_restart(deck(), saved, "f"); }), HasSubstr("train.later was 3"));
}
