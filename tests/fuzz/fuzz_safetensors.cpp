// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Input: a safetensors file.
#include "fuzz_support.hpp"
#include "io/safetensors.hpp"

#include <algorithm>
#include <optional>
#include <vector>

using namespace minisp::fuzz;
using minisp::io::SafetensorsFile;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile stored(data, size);
  std::optional<SafetensorsFile> file;
  if (!accepts([&] { file.emplace(stored.path()); })) return 0;
  for (const auto& tensor : file->tensors()) {
    const auto& name = tensor.first;
    const auto& info = tensor.second;
    require(info.bytes >= 0 && info.begin >= 8 && info.begin + info.bytes <= static_cast<std::int64_t>(size),
            "tensors lie inside the file");
    // No more elements than the file has bytes, unless there are none.
    require(info.elements <= static_cast<std::int64_t>(size), "sizes are limited by the file");
    std::vector<float> whole(static_cast<std::size_t>(info.elements));
    if (!accepts([&] { file->read(name, 0, std::span(whole)); })) continue;  // integers
    // A part is the same as that part of the whole.
    const std::int64_t first = info.elements / 3;
    std::vector<double> part(static_cast<std::size_t>(info.elements - first));
    require(accepts([&] { file->read(name, first, std::span(part)); }), "parts can be read");
    for (std::size_t i = 0; i < part.size(); ++i) {
      const float a = whole[static_cast<std::size_t>(first) + i], b = static_cast<float>(part[i]);
      require(a == b || (a != a && b != b), "a part is that of the whole");
    }
    float one = 0;
    require(!accepts([&] { file->read(name, info.elements, std::span(&one, 1)); }),
            "nothing is read behind a tensor");
  }
  return 0;
}
