// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Architectures from a Hugging Face config.json: model_type llama, qwen2, qwen3 and gpt2.
#pragma once

#include "config/architecture.hpp"

#include <string>
#include <vector>

namespace minisp::config {

struct HuggingFaceModel {
  Architecture architecture;
  std::vector<std::string> notes;  ///< what the file states and miniSP leaves out, a sentence each
};

/// Reads `path`, a config.json or the folder that holds one. Keys that are absent take the defaults of
/// Transformers' configuration class of that model_type; the `rope_parameters` table of Transformers 5 is
/// read as well as `rope_theta` and `rope_scaling`. What changes the numbers and does not exist here (other
/// activations or rotary scalings, sliding windows in use, experts, ...) is refused by key and value with
/// Error (bad_input). Dropout probabilities, which only training sees, are left out with a note.
HuggingFaceModel read_hugging_face_config(const std::string& path);

}  // namespace minisp::config
