// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/safetensors.hpp"
#include "train/trainer.hpp"
#include "util/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace minisp::train {

template <class T>
void load_weights(const std::string& folder, const model::ParameterLayout& layout,
                  const std::vector<typename parallel::ParameterStore<T>::Piece>& pieces) {
  const io::SafetensorsFolder files(folder);
  std::vector<std::string> names;
  for (const auto& entry : layout.entries()) names.push_back(entry.name);
  const bool gpt2 = names.front().rfind("transformer.", 0) == 0;
  // A tied head may be stored beside the embedding that it equals.
  std::vector<std::string> ignored;
  if (!layout.find("lm_head.weight")) ignored.push_back("lm_head.weight");
  const auto match = io::match_names(files, names, gpt2 ? "transformer." : "model.", ignored);
  io::require_complete(match, folder);

  for (const auto& entry : layout.entries()) {
    const auto& stored = match.stored.at(entry.name);
    if (files.shape(stored) != entry.shape)
      throw minisp::input_error(
          fmt::format("tensor {} has shape [{}], the architecture needs [{}]", stored,
                      fmt::join(files.shape(stored), ", "), fmt::join(entry.shape, ", ")),
          folder, "Take config.json and the weights from the same model, without overriding sizes");
  }
  for (const auto& piece : pieces) {
    const auto host = Kokkos::create_mirror_view(piece.master);
    const Index last = piece.first + static_cast<Index>(host.extent(0));
    for (const auto& entry : layout.entries()) {
      const Index begin = std::max(piece.first, entry.offset),
                  end = std::min(last, entry.offset + entry.size());
      if (begin >= end) continue;
      const auto tensor =
          model::from_hugging_face<Accumulate<T>>(entry, files.read(match.stored.at(entry.name)));
      std::copy(tensor.begin() + (begin - entry.offset), tensor.begin() + (end - entry.offset),
                host.data() + (begin - piece.first));
    }
    Kokkos::deep_copy(piece.master, host);
  }
}

template void load_weights<bfloat16>(const std::string&, const model::ParameterLayout&,
                                     const std::vector<parallel::ParameterStore<bfloat16>::Piece>&);
template void load_weights<float>(const std::string&, const model::ParameterLayout&,
                                  const std::vector<parallel::ParameterStore<float>::Piece>&);
template void load_weights<double>(const std::string&, const model::ParameterLayout&,
                                   const std::vector<parallel::ParameterStore<double>::Piece>&);

}  // namespace minisp::train
