// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/presets.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <gmock/gmock.h>
#include <map>

using namespace minisp::config;
using minisp::test::error_of;
using testing::HasSubstr;

// Totals that the publishers state or that follow from the weights on the hub, a tied head counted once.
TEST(Presets, HoldThePublishedNumberOfParameters) {
  const std::map<std::string, std::int64_t> published{
      {"llama-3.2-1b", 1235814400}, {"llama-3.2-3b", 3212749824}, {"llama-3.1-8b", 8030261248},
      {"qwen1.5-1.8b", 1836828672}, {"qwen2.5-3b", 3085938688},   {"qwen3-8b", 8190735360},
      {"gpt2", 124439808}};
  for (const auto& [name, parameters] : published) EXPECT_EQ(preset(name).parameters(), parameters) << name;
}

TEST(Presets, AreAllSound) {
  EXPECT_EQ(preset_names().size(), 13u);
  for (const auto& name : preset_names()) {
    EXPECT_NO_THROW(check(preset(name), name));
    EXPECT_EQ(preset(name).name, name);
    EXPECT_FALSE(preset_description(name).empty());
  }
}

TEST(Presets, TableTwoHas32HeadsThroughout) {
  const std::map<std::string, std::pair<std::int64_t, std::int64_t>> head_dim_and_kv_heads{
      {"llama-3.2-1b", {64, 8}},  {"llama-3.2-3b", {96, 8}}, {"llama-3.1-8b", {128, 8}},
      {"qwen1.5-1.8b", {64, 32}}, {"qwen2.5-3b", {80, 2}},   {"qwen3-8b", {128, 8}}};
  for (const auto& [name, expected] : head_dim_and_kv_heads) {
    const Architecture a = preset(name + "-basp-table2");
    EXPECT_EQ(a.heads, 32) << name;
    EXPECT_EQ(a.head_dim, expected.first) << name;
    EXPECT_EQ(a.kv_heads, expected.second) << name;
    EXPECT_EQ(a.heads * a.head_dim, a.hidden) << name;
  }
  EXPECT_EQ(preset("qwen2.5-3b-basp-table2").hidden, 2560);
  EXPECT_EQ(preset("qwen2.5-3b-basp-table2").layers, 32);
  EXPECT_EQ(preset("qwen3-8b-basp-table2").layers, 32);
}

TEST(Presets, UnknownNameSuggestsTheNearest) {
  EXPECT_THAT(error_of([] { preset("llama-3.2-1B"); }), HasSubstr("Did you mean 'llama-3.2-1b'"));
}

// Counted by hand for a model with every part: hidden 8, MLP 12, 2 layers, 4 heads of 2 with 2 for keys, 10
// tokens.
TEST(Architecture, CountsEveryParameter) {
  Architecture a = preset("qwen3-8b");
  a.hidden = 8, a.intermediate = 12, a.layers = 2, a.heads = 4, a.kv_heads = 2, a.head_dim = 2,
  a.vocabulary = 10;
  // Layer: q 64, k 32, v 32, o 64, norms of heads 4, MLP 288, norms 16; final norm 8, embedding and head 80
  // each.
  EXPECT_EQ(a.parameters(), 2 * (64 + 32 + 32 + 64 + 4 + 288 + 16) + 8 + 160);
  a.tied_head = true;
  a.qkv_bias = true;  // 8 + 4 + 4 a layer
  EXPECT_EQ(a.parameters(), 2 * (64 + 32 + 32 + 64 + 4 + 288 + 16 + 16) + 8 + 80);
}

TEST(Architecture, SizesThatDoNotFitAreRefusedByName) {
  const auto message = [](const std::string& base, const std::function<void(Architecture&)>& change) {
    Architecture a = preset(base);
    change(a);
    return error_of([&] { check(a, "here"); });
  };
  EXPECT_THAT(message("llama-3.2-1b", [](auto& a) { a.layers = 0; }), HasSubstr("here: layers is 0"));
  EXPECT_THAT(message("llama-3.2-1b", [](auto& a) { a.hidden = -4; }), HasSubstr("hidden is -4"));
  EXPECT_THAT(message("llama-3.2-1b", [](auto& a) { a.vocabulary = 1LL << 31; }), HasSubstr("vocabulary"));
  EXPECT_THAT(message("llama-3.2-1b", [](auto& a) { a.kv_heads = 5; }),
              HasSubstr("no multiple of kv_heads = 5"));
  EXPECT_THAT(message("llama-3.2-1b", [](auto& a) { a.head_dim = 63; }), HasSubstr("head_dim is 63"));
  EXPECT_THAT(message("llama-3.2-1b", [](auto& a) { a.norm_epsilon = 0; }), HasSubstr("norm_epsilon"));
  EXPECT_THAT(message("llama-3.2-1b", [](auto& a) { a.rope_scaling->high_frequency_factor = 1; }),
              HasSubstr("rope_high_frequency_factor"));
  EXPECT_THAT(message("llama-3.2-1b", [](auto& a) { a.norm = Norm::layer; }), HasSubstr("llama"));
  EXPECT_THAT(message("gpt2", [](auto& a) { a.kv_heads = 6; }), HasSubstr("kv_heads is 6"));
  EXPECT_THAT(message("gpt2", [](auto& a) { a.head_dim = 32; }),
              HasSubstr("heads * head_dim is 384, but hidden is 768"));
  EXPECT_THAT(message("gpt2", [](auto& a) { a.qk_norm = true; }), HasSubstr("no QK norm"));
}
