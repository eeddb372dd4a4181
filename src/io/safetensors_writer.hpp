// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What a safetensors file is written with: the header, which fixes every byte's place, and the numbers'
// types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace minisp::io {

/// Types that weights are written in.
enum class StoredType { float64, float32, bfloat16 };

std::int64_t bytes_of(StoredType type);
/// As config.json names it: "float64", "float32", "bfloat16".
const char* torch_name(StoredType type);

struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// A file of tensors of one type, one behind the other in the order given.
struct SafetensorsLayout {
  std::vector<std::byte> header;    ///< the file's first bytes: length and JSON, padded to 8
  std::vector<std::int64_t> begin;  ///< of each tensor, in bytes from the start of the file
  std::int64_t bytes = 0;           ///< of the file
};
SafetensorsLayout lay_out(const std::vector<NamedShape>& tensors, StoredType type);

/// out = values as `type`, rounded once to nearest even; out.size() = values.size() * bytes_of(type).
/// T: float, double.
template <class T>
void encode(std::span<const T> values, StoredType type, std::span<std::byte> out);

/// The nearest bfloat16's bits, ties to even; a NaN stays one.
std::uint16_t bfloat16_from(double value);

}  // namespace minisp::io
