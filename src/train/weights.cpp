// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/safetensors.hpp"
#include "train/trainer.hpp"
#include "util/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace minisp::train {

template <class T>
void load_weights(const std::string& folder, const model::ParameterLayout& layout, const Vector<T>& weights) {
  const io::SafetensorsFolder files(folder);
  std::vector<std::string> names;
  for (const auto& entry : layout.entries()) names.push_back(entry.name);
  const bool gpt2 = names.front().rfind("transformer.", 0) == 0;
  // A tied head may be stored beside the embedding that it equals.
  std::vector<std::string> ignored;
  if (!layout.find("lm_head.weight")) ignored.push_back("lm_head.weight");
  const auto match = io::match_names(files, names, gpt2 ? "transformer." : "model.", ignored);
  io::require_complete(match, folder);

  const auto host = Kokkos::create_mirror_view(weights);
  for (const auto& entry : layout.entries()) {
    const auto& stored = match.stored.at(entry.name);
    if (files.shape(stored) != entry.shape)
      throw minisp::input_error(fmt::format("tensor {} has shape [{}], the architecture needs [{}]", stored,
                                    fmt::join(files.shape(stored), ", "), fmt::join(entry.shape, ", ")),
                        folder,
                        "Take config.json and the weights from the same model, without overriding sizes");
    model::from_hugging_face<T>(entry, files.read(stored), host);
  }
  Kokkos::deep_copy(weights, host);
}

template void load_weights<float>(const std::string&, const model::ParameterLayout&, const Vector<float>&);
template void load_weights<double>(const std::string&, const model::ParameterLayout&, const Vector<double>&);

}  // namespace minisp::train
