// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The config.json that makes Transformers build an architecture: model_type llama, qwen2, qwen3 or gpt2.
#pragma once

#include "config/architecture.hpp"

#include <optional>
#include <string>

namespace minisp::config {

/// The family whose Transformers class computes this architecture. Llama, Qwen2 and Qwen3 name their tensors
/// alike and differ in biases and norms, so that these decide: a Llama with biases on q, k and v is a Qwen2.
/// Nothing where no class has both such biases and norms of heads.
std::optional<Family> exported_family(const Architecture& architecture);

/// Text of a config.json; read_hugging_face_config() reads the same architecture from it. `dtype` is that of
/// the weights beside it ("float32", ...). `end_of_document` becomes eos_token_id, -1: none; there is no
/// bos_token_id, whatever the classes' defaults, for sequences are trained without one. Keys are those of
/// Transformers 4, which 5 reads too (rope_theta and rope_scaling, torch_dtype). The architecture has an
/// exported_family().
std::string hugging_face_config(const Architecture& architecture, const std::string& dtype,
                                std::int64_t end_of_document);

}  // namespace minisp::config
