// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/deck.hpp"
#include "config/hugging_face.hpp"
#include "config/hugging_face_writer.hpp"
#include "config/presets.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <unistd.h>

using namespace minisp::config;
using testing::HasSubstr;

namespace {

/// What the reader makes of the writer's text.
Architecture read_back(const Architecture& a) {
  const auto folder = std::filesystem::temp_directory_path() / ("minisp-writer-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << hugging_face_config(a, "float32", -1);
  HuggingFaceModel model = read_hugging_face_config(folder.string());
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(model.notes.empty());
  model.architecture.name = a.name;
  return model.architecture;
}

nlohmann::json json_of(const Architecture& a, const std::string& dtype = "float32", std::int64_t end = -1) {
  return nlohmann::json::parse(hugging_face_config(a, dtype, end));
}

}  // namespace

TEST(HuggingFaceWriter, TheReaderGetsEveryPresetBack) {
  for (const std::string& name : preset_names()) {
    Architecture a = preset(name);
    EXPECT_EQ(read_back(a), a) << name;
    // And with every number that the presets leave at a default.
    a.norm_epsilon = 3.3e-7;
    a.tied_head = !a.tied_head;
    a.vocabulary = 1234;
    a.max_positions = 77;
    a.intermediate = 555;
    if (a.positions == Positions::rope) {
      a.rope_theta = 12345.678901234567;
      a.rope_scaling = RopeScaling{2.5, 1.25, 3.75, 4097};
      a.head_dim = 46;
    }
    EXPECT_EQ(read_back(a), a) << name;
  }
}

TEST(HuggingFaceWriter, TheReferenceModelsComeBack) {
  for (const char* name :
       {"llama-gqa-scaled-rope", "llama-untied-packed", "qwen2-bias", "qwen3-qk-norm", "gpt2"}) {
    const auto folder = std::string(MINISP_SOURCE_FOLDER) + "/tests/reference/" + name;
    const Architecture a = read_hugging_face_config(folder).architecture;
    EXPECT_EQ(read_back(a), a);
    std::ifstream file(folder + "/config.json");
    const auto theirs = nlohmann::json::parse(file);
    EXPECT_EQ(json_of(a)["architectures"], theirs["architectures"]);
    EXPECT_EQ(json_of(a)["model_type"], theirs["model_type"]);
  }
}

TEST(HuggingFaceWriter, BiasesAndNormsDecideTheClass) {
  Architecture a = preset("llama-3.2-1b");
  EXPECT_EQ(exported_family(a), Family::llama);
  a.qkv_bias = true;
  EXPECT_EQ(exported_family(a), Family::qwen2);
  EXPECT_EQ(json_of(a)["architectures"][0], "Qwen2ForCausalLM");
  Architecture back = read_back(a);
  EXPECT_EQ(back.family, Family::qwen2);
  back.family = a.family;
  EXPECT_EQ(back, a);
  a.qkv_bias = false;
  a.qk_norm = true;
  EXPECT_EQ(exported_family(a), Family::qwen3);
  a.qkv_bias = true;
  EXPECT_EQ(exported_family(a), std::nullopt);
  const std::string deck = "[model]\npreset = 'qwen3-8b'\nqkv_bias = true\n[export]\nfolder = 'x'\n";
  EXPECT_THAT(minisp::test::error_of([&] { parse_config(deck, "d.toml", {}); }),
              HasSubstr("d.toml:5: export.folder"));
  EXPECT_NO_THROW(parse_config(deck, "d.toml", {"model.qkv_bias=false"}));
}

TEST(HuggingFaceWriter, TokensAndTypes) {
  const auto json = json_of(preset("gpt2"), "bfloat16", 50256);
  EXPECT_EQ(json["torch_dtype"], "bfloat16");
  EXPECT_EQ(json["eos_token_id"], 50256);
  // Absent, Transformers would take its classes' own: tokens that were never trained as such.
  ASSERT_TRUE(json_of(preset("llama-3.2-1b")).contains("eos_token_id"));
  EXPECT_TRUE(json_of(preset("llama-3.2-1b"))["eos_token_id"].is_null());
  EXPECT_TRUE(json["bos_token_id"].is_null());
  EXPECT_EQ(json["resid_pdrop"], 0.0);
}
