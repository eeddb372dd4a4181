// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/hugging_face.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <unistd.h>

using namespace minisp::config;
using minisp::test::error_of;
using testing::AllOf;
using testing::HasSubstr;

namespace {

const std::string reference = std::string(MINISP_SOURCE_FOLDER) + "/tests/reference/";

/// A config.json with the given text, for the duration of a test.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : folder_(std::filesystem::temp_directory_path() / ("minisp-config-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "config.json") << text;
  }
  ~ConfigFile() { std::filesystem::remove_all(folder_); }
  std::string folder() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
};

HuggingFaceModel read(const std::string& text) {
  return read_hugging_face_config(ConfigFile(text).folder());
}
Architecture architecture(const std::string& text) {
  return read(text).architecture;
}
std::string fault(const std::string& text) {
  return error_of([&] { read(text); });
}
/// A configuration of that type with one entry more.
std::string with(const std::string& type, const std::string& entry) {
  return "{\"model_type\": \"" + type + "\", " + entry + "}";
}

void expect_sizes(const Architecture& a, std::vector<std::int64_t> sizes) {
  EXPECT_EQ((std::vector<std::int64_t>{a.hidden, a.intermediate, a.layers, a.heads, a.kv_heads, a.head_dim,
                                       a.vocabulary, a.max_positions}),
            sizes)
      << a.name;
}

}  // namespace

TEST(HuggingFace, ReferenceModels) {
  const Architecture scaled = read_hugging_face_config(reference + "llama-gqa-scaled-rope").architecture;
  expect_sizes(scaled, {64, 96, 2, 8, 2, 8, 97, 64});
  EXPECT_EQ(scaled.name, "llama-gqa-scaled-rope");
  EXPECT_EQ(scaled.family, Family::llama);
  EXPECT_EQ(scaled.rope_theta, 5e5);
  EXPECT_EQ(scaled.norm_epsilon, 1e-5);
  ASSERT_TRUE(scaled.rope_scaling.has_value());
  EXPECT_EQ(scaled.rope_scaling->factor, 8);
  EXPECT_EQ(scaled.rope_scaling->low_frequency_factor, 1);
  EXPECT_EQ(scaled.rope_scaling->high_frequency_factor, 4);
  EXPECT_EQ(scaled.rope_scaling->original_max_positions, 16);
  EXPECT_TRUE(scaled.tied_head);
  EXPECT_FALSE(scaled.qkv_bias || scaled.qk_norm || scaled.linear_bias);

  const Architecture packed =
      read_hugging_face_config(reference + "llama-untied-packed/config.json").architecture;
  expect_sizes(packed, {48, 80, 3, 12, 6, 4, 101, 64});
  EXPECT_EQ(packed.name, "llama-untied-packed");
  EXPECT_FALSE(packed.tied_head || packed.rope_scaling.has_value());

  const Architecture qwen2 = read_hugging_face_config(reference + "qwen2-bias").architecture;
  expect_sizes(qwen2, {64, 88, 2, 8, 1, 8, 89, 64});
  EXPECT_TRUE(qwen2.qkv_bias && qwen2.tied_head);
  EXPECT_FALSE(qwen2.qk_norm || qwen2.linear_bias);
  EXPECT_EQ(qwen2.norm_epsilon, 1e-6);
  EXPECT_EQ(qwen2.rope_theta, 1e6);

  const Architecture qwen3 = read_hugging_face_config(reference + "qwen3-qk-norm").architecture;
  expect_sizes(qwen3, {40, 72, 2, 8, 4, 16, 103, 64});
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.qkv_bias || qwen3.tied_head);

  const Architecture gpt2 = read_hugging_face_config(reference + "gpt2").architecture;
  expect_sizes(gpt2, {64, 256, 2, 8, 8, 8, 97, 64});
  EXPECT_EQ(gpt2.norm, Norm::layer);
  EXPECT_EQ(gpt2.positions, Positions::learned);
  EXPECT_EQ(gpt2.mlp, Mlp::gelu_tanh);
  EXPECT_TRUE(gpt2.qkv_bias && gpt2.linear_bias && gpt2.tied_head);
}

TEST(HuggingFace, AbsentKeysTakeTheDefaultsOfTransformers) {
  const Architecture llama = architecture(R"({"model_type": "llama"})");
  expect_sizes(llama, {4096, 11008, 32, 32, 32, 128, 32000, 2048});
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_EQ(llama.rope_theta, 1e4);
  EXPECT_FALSE(llama.tied_head);
  expect_sizes(architecture(R"({"model_type": "qwen2"})"), {4096, 22016, 32, 32, 32, 128, 151936, 32768});
  expect_sizes(architecture(R"({"model_type": "qwen3"})"), {4096, 22016, 32, 32, 32, 128, 151936, 32768});
  const HuggingFaceModel gpt2 = read(R"({"model_type": "gpt2"})");
  EXPECT_EQ(gpt2.architecture.parameters(), 124439808);
  EXPECT_EQ(gpt2.architecture.norm_epsilon, 1e-5);
  // K/V heads: Llama's class takes as many as query heads, Qwen's classes 32; null means the former in all.
  EXPECT_EQ(architecture(with("llama", R"("num_attention_heads": 16)")).kv_heads, 16);
  EXPECT_EQ(architecture(with("qwen2", R"("num_attention_heads": 64)")).kv_heads, 32);
  EXPECT_EQ(architecture(with("qwen2", R"("num_attention_heads": 64, "num_key_value_heads": null)")).kv_heads,
            64);
  // Head size: Qwen3's class takes 128, the others hidden / heads.
  EXPECT_EQ(architecture(with("qwen3", R"("hidden_size": 1024)")).head_dim, 128);
  EXPECT_EQ(architecture(with("qwen2", R"("hidden_size": 1024)")).head_dim, 32);
  EXPECT_EQ(architecture(with("llama", R"("head_dim": 64)")).head_dim, 64);
  EXPECT_EQ(architecture(with("gpt2", R"("n_inner": null)")).intermediate, 3072);
  EXPECT_EQ(architecture(with("gpt2", R"("n_inner": 100)")).intermediate, 100);
  EXPECT_FALSE(architecture(with("gpt2", R"("tie_word_embeddings": false)")).tied_head);
}

TEST(HuggingFace, RotaryPositionsInEveryForm) {
  EXPECT_EQ(architecture(with("llama", R"("rope_theta": 500000)")).rope_theta, 5e5);
  EXPECT_FALSE(
      architecture(with("llama", R"("rope_scaling": {"rope_type": "default"})")).rope_scaling.has_value());
  const std::string llama3 =
      R"("factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})";
  EXPECT_EQ(
      architecture(with("llama", R"("rope_scaling": {"type": "llama3", )" + llama3)).rope_scaling->factor,
      32);
  const Architecture five = architecture(
      with("qwen3", R"("rope_parameters": {"rope_theta": 1000000.0, "rope_type": "llama3", )" + llama3));
  EXPECT_EQ(five.rope_theta, 1e6);
  EXPECT_EQ(five.rope_scaling->original_max_positions, 8192);
  EXPECT_THAT(fault(with("llama", R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0})")),
              AllOf(HasSubstr("rope_scaling: rope_type"), HasSubstr("\"yarn\"")));
  EXPECT_THAT(fault(with("llama", R"("rope_scaling": {"type": "linear", "factor": 2.0})")),
              HasSubstr("\"linear\""));
  EXPECT_THAT(fault(with("llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0})")),
              HasSubstr("low_freq_factor: the key is missing"));
  EXPECT_THAT(fault(with("llama", R"("rope_parameters": {"full_attention": {"rope_theta": 1.0}})")),
              HasSubstr("rope_parameters"));
  EXPECT_THAT(fault(with("llama", R"("partial_rotary_factor": 0.5)")), HasSubstr("partial_rotary_factor"));
}

TEST(HuggingFace, WhatIsNotSupportedIsRefusedByKeyAndValue) {
  EXPECT_THAT(fault(R"({"model_type": "mistral"})"),
              AllOf(HasSubstr("model_type"), HasSubstr("\"mistral\"")));
  EXPECT_THAT(fault(R"({"model_type": "qwen2_moe"})"),
              AllOf(HasSubstr("\"qwen2_moe\" is not supported"), HasSubstr("Known: llama")));
  EXPECT_THAT(fault("{}"), HasSubstr("model_type: the key is missing"));
  for (const std::string entry :
       {R"("hidden_act": "gelu")", R"("attention_bias": true)", R"("mlp_bias": true)", R"("num_experts": 8)",
        R"("quantization_config": {"bits": 4})", R"("layer_types": ["full_attention", "sliding_attention"])",
        R"("attn_logit_softcapping": 50.0)", R"("logits_scaling": 8.0)", R"("is_encoder_decoder": true)"}) {
    const std::string key = entry.substr(1, entry.find('"', 1) - 1);
    EXPECT_THAT(fault(with("llama", entry)),
                AllOf(HasSubstr("config.json: " + key), HasSubstr("not supported")));
  }
  for (const std::string entry :
       {R"("activation_function": "gelu")", R"("activation_function": "relu")",
        R"("scale_attn_weights": false)", R"("scale_attn_by_inverse_layer_idx": true)",
        R"("reorder_and_upcast_attn": true)", R"("add_cross_attention": true)",
        R"("pruned_heads": {"0": [1]})"}) {
    const std::string key = entry.substr(1, entry.find('"', 1) - 1);
    EXPECT_THAT(fault(with("gpt2", entry)),
                AllOf(HasSubstr("config.json: " + key), HasSubstr("not supported")));
  }
  // Switched off, the same keys are what Transformers writes.
  EXPECT_NO_THROW(read(with("llama", R"("attention_bias": false, "mlp_bias": false, "num_experts": 0,
      "quantization_config": null, "layer_types": ["full_attention"], "logits_scaling": 1.0, "pruned_heads": {},
      "partial_rotary_factor": 1.0, "hidden_act": "silu", "torch_dtype": "bfloat16", "pretraining_tp": 1)")));
  EXPECT_NO_THROW(read(with("gpt2", R"("activation_function": "gelu_pytorch_tanh", "scale_attn_weights": true,
      "summary_type": "cls_index", "n_ctx": 1024, "task_specific_params": {"text-generation": {}})")));
}

TEST(HuggingFace, SlidingWindowsCountOnlyWhereTheyAreInUse) {
  EXPECT_THAT(fault(with("qwen2", R"("use_sliding_window": true, "max_window_layers": 16)")),
              HasSubstr("use_sliding_window"));
  EXPECT_THAT(fault(with("qwen3", R"("use_sliding_window": true)")), HasSubstr("use_sliding_window"));
  EXPECT_NO_THROW(
      read(with("qwen2", R"("use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 16)")));
  EXPECT_NO_THROW(read(with("qwen2", R"("use_sliding_window": true, "max_window_layers": 32)")));
  EXPECT_NO_THROW(read(with("qwen2", R"("sliding_window": 4096)")));
}

TEST(HuggingFace, DropoutIsLeftOutWithANote) {
  const HuggingFaceModel gpt2 =
      read(with("gpt2", R"("resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.0)"));
  ASSERT_EQ(gpt2.notes.size(), 2u);
  EXPECT_THAT(gpt2.notes[0], AllOf(HasSubstr("resid_pdrop = 0.1"), HasSubstr("without dropout")));
  EXPECT_TRUE(read(with("llama", R"("attention_dropout": 0.0)")).notes.empty());
}

TEST(HuggingFace, WrongTypesAndSizesNameTheKeyOfTheFile) {
  EXPECT_THAT(fault(with("llama", R"("hidden_size": "wide")")),
              HasSubstr("hidden_size: the value is \"wide\""));
  EXPECT_THAT(fault(with("llama", R"("hidden_size": 64.5)")), HasSubstr("hidden_size"));
  EXPECT_THAT(fault(with("llama", R"("vocab_size": 18446744073709551615)")), HasSubstr("vocab_size"));
  EXPECT_THAT(fault(with("llama", R"("vocab_size": -1)")), HasSubstr("vocab_size"));
  EXPECT_THAT(fault(with("llama", R"("num_attention_heads": 0)")), HasSubstr("num_attention_heads"));
  EXPECT_THAT(fault(with("llama", R"("num_key_value_heads": 5)")), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(fault(with("llama", R"("num_hidden_layers": 0)")), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(fault(with("gpt2", R"("n_head": 7)")), HasSubstr("n_head"));
  EXPECT_THAT(fault(with("gpt2", R"("n_embd": 768, "hidden_size": 512)")), HasSubstr("hidden_size"));
  EXPECT_THAT(fault("[1]"), HasSubstr("no table"));
  EXPECT_THAT(fault("{"), HasSubstr("JSON"));
  EXPECT_THAT(error_of([] { read_hugging_face_config("/no/such"); }), HasSubstr("/no/such"));
}
