// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What a model is: every number that its parameters and its arithmetic depend on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace minisp::config {

/// Decides the Hugging Face tensor names and `model_type`; the arithmetic follows from the fields below.
enum class Family { llama, qwen2, qwen3, gpt2 };
enum class Norm { rms, layer };
enum class Positions { rope, learned };
enum class Mlp { swiglu, gelu_tanh };

/// Llama 3's scaling of the rotary frequencies (Transformers: rope_type "llama3").
struct RopeScaling {
  double factor = 8.0;
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  std::int64_t original_max_positions = 8192;

  bool operator==(const RopeScaling&) const = default;
};

struct Architecture {
  std::string name;  ///< preset's name, or the folder that it was read from
  Family family = Family::llama;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;  ///< rows of the table with learned positions; else a statement only
  Norm norm = Norm::rms;
  double norm_epsilon = 1e-5;
  Positions positions = Positions::rope;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling;
  Mlp mlp = Mlp::swiglu;
  bool tied_head = false;
  bool qkv_bias = false;     ///< bias on the q, k and v projections
  bool linear_bias = false;  ///< bias on the attention output and MLP projections too (GPT-2)
  bool qk_norm = false;      ///< RMSNorm of every query and key head (Qwen3)

  std::int64_t q_size() const { return heads * head_dim; }
  std::int64_t kv_size() const { return kv_heads * head_dim; }
  /// Number of parameters, a tied head counted once.
  std::int64_t parameters() const;

  bool operator==(const Architecture&) const = default;
};

/// Throws Error (bad_input) naming the field where sizes do not fit: non-positive sizes, heads not a
/// multiple of kv_heads, odd head_dim with RoPE. `where` prefixes the message (file or preset).
void check(const Architecture& architecture, const std::string& where);

const char* to_string(Family family);

}  // namespace minisp::config
