// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/safetensors_writer.hpp"

#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace minisp::io {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little endian");

const char* safetensors_name(StoredType type) {
  switch (type) {
    case StoredType::float64:
      return "F64";
    case StoredType::float32:
      return "F32";
    case StoredType::bfloat16:
      return "BF16";
  }
  return "";
}

/// Stores convert(value) of every value.
template <class T, class Convert>
void store(std::span<const T> values, std::byte* out, Convert convert) {
  for (const T value : values) {
    const auto stored = convert(value);
    std::memcpy(out, &stored, sizeof stored);
    out += sizeof stored;
  }
}

}  // namespace

std::int64_t bytes_of(StoredType type) {
  return type == StoredType::float64 ? 8 : type == StoredType::float32 ? 4 : 2;
}

const char* torch_name(StoredType type) {
  switch (type) {
    case StoredType::float64:
      return "float64";
    case StoredType::float32:
      return "float32";
    case StoredType::bfloat16:
      return "bfloat16";
  }
  return "";
}

SafetensorsLayout lay_out(const std::vector<NamedShape>& tensors, StoredType type) {
  nlohmann::ordered_json json;
  json["__metadata__"]["format"] = "pt";  // Transformers refuses a file that does not say so
  SafetensorsLayout layout;
  std::int64_t end = 0;
  for (const auto& [name, shape] : tensors) {
    std::int64_t bytes = bytes_of(type);
    for (const std::int64_t extent : shape) bytes *= extent;
    json[name] = {{"dtype", safetensors_name(type)}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    layout.begin.push_back(end);
    end += bytes;
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that numbers are aligned in a mapped file
  const std::uint64_t length = text.size();
  layout.header.resize(sizeof length + text.size());
  std::memcpy(layout.header.data(), &length, sizeof length);
  std::memcpy(layout.header.data() + sizeof length, text.data(), text.size());
  const auto data = static_cast<std::int64_t>(layout.header.size());
  for (std::int64_t& begin : layout.begin) begin += data;
  layout.bytes = data + end;
  return layout;
}

std::uint16_t bfloat16_from(double value) {
  if (std::isnan(value)) return static_cast<std::uint16_t>(std::signbit(value) ? 0xffc0 : 0x7fc0);
  // To float first, towards zero and with a last bit that says whether anything was cut off: then the second
  // rounding sees on which side of a tie the number lies ("round to odd").
  auto narrow = static_cast<float>(value);
  if (std::isinf(narrow) && !std::isinf(value)) narrow = std::copysign(0x1.fffffep127f, narrow);
  auto bits = std::bit_cast<std::uint32_t>(narrow);
  if (static_cast<double>(narrow) != value) {
    if (std::abs(static_cast<double>(narrow)) > std::abs(value)) --bits;
    bits |= 1;
  }
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <class T>
void encode(std::span<const T> values, StoredType type, std::span<std::byte> out) {
  if (out.size() != values.size() * static_cast<std::size_t>(bytes_of(type)))
    throw std::invalid_argument("encode: the buffer does not fit the values");
  switch (type) {
    case StoredType::float64:
      return store(values, out.data(), [](T value) { return static_cast<double>(value); });
    case StoredType::float32:
      return store(values, out.data(), [](T value) { return static_cast<float>(value); });
    case StoredType::bfloat16:
      return store(values, out.data(), [](T value) { return bfloat16_from(static_cast<double>(value)); });
  }
}

template void encode<float>(std::span<const float>, StoredType, std::span<std::byte>);
template void encode<double>(std::span<const double>, StoredType, std::span<std::byte>);

}  // namespace minisp::io
