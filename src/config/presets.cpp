// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Sizes as published in the models' config.json on the Hugging Face hub; Table II of the BASP paper
// (arXiv:2609.03151) for the variants.
#include "config/presets.hpp"

#include "config/suggest.hpp"
#include "util/error.hpp"

namespace minisp::config {

namespace {

struct Preset {
  Architecture architecture;
  std::string description;
};

/// A Llama-like model: RMSNorm, rotary positions, SwiGLU.
Architecture rms_model(Family family, std::int64_t hidden, std::int64_t intermediate, std::int64_t layers,
                       std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                       std::int64_t vocabulary) {
  Architecture a;
  a.family = family;
  a.hidden = hidden;
  a.intermediate = intermediate;
  a.layers = layers;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head_dim = head_dim;
  a.vocabulary = vocabulary;
  return a;
}

Architecture llama(std::int64_t hidden, std::int64_t intermediate, std::int64_t layers, std::int64_t heads,
                   std::int64_t head_dim, double rope_factor, bool tied_head) {
  Architecture a = rms_model(Family::llama, hidden, intermediate, layers, heads, 8, head_dim, 128256);
  a.max_positions = 131072;
  a.norm_epsilon = 1e-5;
  a.rope_theta = 5e5;
  a.rope_scaling = RopeScaling{.factor = rope_factor};
  a.tied_head = tied_head;
  return a;
}

/// Qwen1.5 and Qwen2.5 (model_type qwen2): bias on q, k and v. Qwen3: norm of every head instead.
Architecture qwen(Family family, std::int64_t hidden, std::int64_t intermediate, std::int64_t layers,
                  std::int64_t heads, std::int64_t kv_heads, std::int64_t max_positions, bool tied_head) {
  Architecture a = rms_model(family, hidden, intermediate, layers, heads, kv_heads, 128, 151936);
  a.max_positions = max_positions;
  a.norm_epsilon = 1e-6;
  a.rope_theta = 1e6;
  a.tied_head = tied_head;
  a.qkv_bias = family == Family::qwen2;
  a.qk_norm = family == Family::qwen3;
  return a;
}

Architecture gpt2_small() {
  Architecture a = rms_model(Family::gpt2, 768, 3072, 12, 12, 12, 64, 50257);
  a.max_positions = 1024;
  a.norm = Norm::layer;
  a.norm_epsilon = 1e-5;
  a.positions = Positions::learned;
  a.mlp = Mlp::gelu_tanh;
  a.tied_head = true;
  a.qkv_bias = true;
  a.linear_bias = true;
  return a;
}

/// Table II states hidden size, layers and 32 query heads for every model, whatever was published, and no
/// key/value heads: those stay as published (a model with one for each query head keeps one for each), and so
/// do all other sizes. A head is hidden / 32. `model.kv_heads=32` gives the other reading, multi-head
/// attention.
Architecture table2(Architecture a, std::int64_t hidden, std::int64_t layers) {
  a.hidden = hidden;
  a.layers = layers;
  if (a.kv_heads == a.heads) a.kv_heads = 32;
  a.heads = 32;
  a.head_dim = hidden / a.heads;
  return a;
}

std::vector<Preset> make_presets() {
  const Architecture llama_1b = llama(2048, 8192, 16, 32, 64, 32, true);
  const Architecture llama_3b = llama(3072, 8192, 28, 24, 128, 32, true);
  const Architecture llama_8b = llama(4096, 14336, 32, 32, 128, 8, false);
  const Architecture qwen15 = qwen(Family::qwen2, 2048, 5504, 24, 16, 16, 32768, false);
  const Architecture qwen25 = qwen(Family::qwen2, 2048, 11008, 36, 16, 2, 32768, true);
  const Architecture qwen3 = qwen(Family::qwen3, 4096, 12288, 36, 32, 8, 40960, false);
  std::vector<Preset> presets;
  const auto add = [&](const char* name, Architecture a, const char* description) {
    a.name = name;
    presets.push_back({std::move(a), description});
  };
  add("llama-3.2-1b", llama_1b, "Llama 3.2 1B as published");
  add("llama-3.2-3b", llama_3b, "Llama 3.2 3B as published");
  add("llama-3.1-8b", llama_8b, "Llama 3.1 8B as published");
  add("qwen1.5-1.8b", qwen15, "Qwen1.5 1.8B as published");
  add("qwen2.5-3b", qwen25, "Qwen2.5 3B as published");
  add("qwen3-8b", qwen3, "Qwen3 8B as published");
  add("gpt2", gpt2_small(), "GPT-2 small as published");
  add("llama-3.2-1b-basp-table2", table2(llama_1b, 2048, 16), "BASP paper, Table II: the published sizes");
  add("llama-3.2-3b-basp-table2", table2(llama_3b, 3072, 28),
      "BASP paper, Table II: 32 heads of 96, not 24 of 128");
  add("llama-3.1-8b-basp-table2", table2(llama_8b, 4096, 32), "BASP paper, Table II: the published sizes");
  add("qwen1.5-1.8b-basp-table2", table2(qwen15, 2048, 24),
      "BASP paper, Table II: 32 heads of 64, not 16 of 128");
  add("qwen2.5-3b-basp-table2", table2(qwen25, 2560, 32),
      "BASP paper, Table II: hidden 2560, 32 layers, 32 heads of 80, not 2048, 36, 16 of 128");
  add("qwen3-8b-basp-table2", table2(qwen3, 4096, 32), "BASP paper, Table II: 32 layers, not 36");
  return presets;
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> list = make_presets();
  return list;
}

const Preset& find_preset(const std::string& name) {
  for (const Preset& p : presets())
    if (p.architecture.name == name) return p;
  throw input_error("there is no preset '" + name + "'", "model.preset", suggestion(name, preset_names()));
}

}  // namespace

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Preset& p : presets()) list.push_back(p.architecture.name);
    return list;
  }();
  return names;
}

Architecture preset(const std::string& name) {
  return find_preset(name).architecture;
}

std::string preset_description(const std::string& name) {
  return find_preset(name).description;
}

}  // namespace minisp::config
