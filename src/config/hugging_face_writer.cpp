// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/hugging_face_writer.hpp"

#include <nlohmann/json.hpp>

namespace minisp::config {

namespace {

using json = nlohmann::ordered_json;

const char* class_of(Family family) {
  switch (family) {
    case Family::llama:
      return "LlamaForCausalLM";
    case Family::qwen2:
      return "Qwen2ForCausalLM";
    case Family::qwen3:
      return "Qwen3ForCausalLM";
    case Family::gpt2:
      return "GPT2LMHeadModel";
  }
  return "";
}

void write_gpt2(const Architecture& a, json& config) {
  config["n_embd"] = a.hidden;
  config["n_inner"] = a.intermediate;
  config["n_layer"] = a.layers;
  config["n_head"] = a.heads;
  config["n_positions"] = a.max_positions;
  config["layer_norm_epsilon"] = a.norm_epsilon;
  config["activation_function"] = "gelu_new";
  // The class's defaults are 0.1.
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) config[key] = 0.0;
}

void write_rms_model(const Architecture& a, Family family, json& config) {
  config["hidden_size"] = a.hidden;
  config["intermediate_size"] = a.intermediate;
  config["num_hidden_layers"] = a.layers;
  config["num_attention_heads"] = a.heads;
  config["num_key_value_heads"] = a.kv_heads;
  config["head_dim"] = a.head_dim;
  config["max_position_embeddings"] = a.max_positions;
  config["rms_norm_eps"] = a.norm_epsilon;
  config["hidden_act"] = "silu";
  config["attention_dropout"] = 0.0;
  config["rope_theta"] = a.rope_theta;
  config["rope_scaling"] = nullptr;
  if (const auto& s = a.rope_scaling)
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", s->factor},
                              {"low_freq_factor", s->low_frequency_factor},
                              {"high_freq_factor", s->high_frequency_factor},
                              {"original_max_position_embeddings", s->original_max_positions}};
  // Qwen2's class has its biases always and no such key.
  if (family != Family::qwen2) config["attention_bias"] = false;
  if (family == Family::llama)
    config["mlp_bias"] = false;
  else
    config["use_sliding_window"] = false;
}

}  // namespace

std::optional<Family> exported_family(const Architecture& a) {
  if (a.family == Family::gpt2) return Family::gpt2;
  if (a.qkv_bias && a.qk_norm) return std::nullopt;
  return a.qkv_bias ? Family::qwen2 : a.qk_norm ? Family::qwen3 : Family::llama;
}

std::string hugging_face_config(const Architecture& a, const std::string& dtype,
                                std::int64_t end_of_document) {
  const Family family = exported_family(a).value();
  json config;
  config["architectures"] = {class_of(family)};
  config["model_type"] = to_string(family);
  config["vocab_size"] = a.vocabulary;
  if (family == Family::gpt2)
    write_gpt2(a, config);
  else
    write_rms_model(a, family, config);
  config["tie_word_embeddings"] = a.tied_head;
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  if (end_of_document >= 0) config["eos_token_id"] = end_of_document;
  config["torch_dtype"] = dtype;
  config["use_cache"] = true;
  return config.dump(2) + "\n";
}

}  // namespace minisp::config
