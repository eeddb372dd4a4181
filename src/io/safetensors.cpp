// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/safetensors.hpp"

#include "config/foreign_text.hpp"
#include "util/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <utility>

namespace minisp::io {

namespace {

using config::shortened;
using config::shown;
using nlohmann::json;

constexpr std::int64_t largest_header = 100'000'000;  // the format's own limit
constexpr std::int64_t chunk_bytes = std::int64_t{1} << 20;
constexpr std::size_t longest_name = 255;  // of a file, as systems have it
constexpr const char* get_it_again = "The file is damaged or cut off: get it again";

struct Dtype {
  const char* name;
  std::int64_t bytes;
};
constexpr std::array<Dtype, 16> dtypes{{{"F64", 8},
                                        {"F32", 4},
                                        {"F16", 2},
                                        {"BF16", 2},
                                        {"I64", 8},
                                        {"I32", 4},
                                        {"I16", 2},
                                        {"I8", 1},
                                        {"U64", 8},
                                        {"U32", 4},
                                        {"U16", 2},
                                        {"U8", 1},
                                        {"BOOL", 1},
                                        {"F8_E4M3", 1},
                                        {"F8_E5M2", 1},
                                        {"F8_E8M0", 1}}};

[[noreturn]] void fault(const std::string& path, const std::string& tensor, const std::string& what) {
  throw input_error(what, tensor.empty() ? path : path + ": " + shortened(tensor), get_it_again);
}

/// JSON whose keys must not repeat; the library would keep the last one silently.
json parse_unique(const std::string& text, const std::string& path) {
  std::vector<std::set<std::string>> open_objects;
  std::string repeated;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second)
      repeated = parsed.get<std::string>();
    return true;
  };
  try {
    json object = json::parse(text, watch);
    if (!repeated.empty()) fault(path, repeated, "the name occurs twice");
    if (!object.is_object()) fault(path, "", "the header is JSON, but no table");
    return object;
  } catch (const json::exception& error) {
    fault(path, "", "the header is no valid JSON: " + shortened(error.what()));
  }
}

std::int64_t natural_number(const json& value, const std::string& path, const std::string& name,
                            const char* what) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > largest)
    fault(path, name, std::string(what) + " holds " + shown(value) + ", which is no size");
  return value.get<std::int64_t>();
}

TensorInfo read_entry(const std::string& path, const std::string& name, const json& entry) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    fault(path, name, "the entry lacks dtype, shape or data_offsets");
  const json &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  TensorInfo info;
  info.name = name;
  const auto known =
      std::find_if(dtypes.begin(), dtypes.end(), [&](const Dtype& d) { return dtype == d.name; });
  if (known == dtypes.end()) fault(path, name, "the type " + shown(dtype) + " is unknown");
  info.dtype = known->name;
  if (!shape.is_array()) fault(path, name, "the shape is no list");
  info.elements = 1;
  for (const json& extent : shape) {
    info.shape.push_back(natural_number(extent, path, name, "the shape"));
    if (__builtin_mul_overflow(info.elements, info.shape.back(), &info.elements))
      fault(path, name, "the shape " + shown(shape) + " has more than 2^63 elements");
  }
  if (!offsets.is_array() || offsets.size() != 2) fault(path, name, "data_offsets is no pair");
  info.begin = natural_number(offsets[0], path, name, "data_offsets");
  info.bytes = natural_number(offsets[1], path, name, "data_offsets") - info.begin;
  std::int64_t needed = 0;
  if (__builtin_mul_overflow(info.elements, known->bytes, &needed) || needed != info.bytes)
    fault(path, name,
          "the shape " + shown(shape) + " of " + info.dtype + " does not take the " +
              std::to_string(info.bytes) + " bytes of data_offsets " + shown(offsets));
  return info;
}

/// Tensors lie one behind the other, from the header's end to the file's end.
void require_seamless(const std::string& path, const std::map<std::string, TensorInfo>& tensors,
                      std::int64_t data_size) {
  std::vector<const TensorInfo*> order;
  for (const auto& [name, info] : tensors) order.push_back(&info);
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->begin, a->bytes) < std::pair(b->begin, b->bytes);
  });
  std::int64_t end = 0;
  for (const TensorInfo* info : order) {
    if (info->begin != end)
      fault(path, info->name,
            "its bytes begin at " + std::to_string(info->begin) + ", but the tensor before it ends at " +
                std::to_string(end));
    end += info->bytes;
    if (end > data_size)
      fault(path, info->name,
            "its bytes end at " + std::to_string(end) + ", but the file holds only " +
                std::to_string(data_size) + " bytes of data");
  }
  if (end != data_size)
    fault(path, "",
          "the file holds " + std::to_string(data_size) + " bytes of data, but its tensors only " +
              std::to_string(end));
}

/// out[i] = the i-th stored value, of C++ type Stored, through `widen`.
template <class Stored, class T, class Widen>
void convert(const std::byte* source, std::span<T> out, Widen widen) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored value{};
    std::memcpy(&value, source + i * sizeof value, sizeof value);
    out[i] = static_cast<T>(widen(value));
  }
}

template <class T>
void convert(const std::byte* source, const std::string& dtype, std::span<T> out) {
  const auto same = [](auto value) { return value; };
  if (dtype == "F64") return convert<double>(source, out, same);
  if (dtype == "F32") return convert<float>(source, out, same);
  if (dtype == "F16") return convert<std::uint16_t>(source, out, float_from_half);
  convert<std::uint16_t>(source, out, float_from_bfloat16);
}

}  // namespace

float float_from_half(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
  if (exponent == 0) {  // zero and subnormal: fraction * 2^-24, which float holds as a normal number
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide_exponent = exponent == 0x1fu ? 0xffu : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide_exponent << 23 | fraction << 13);
}

float float_from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(path, "Name a folder with model.safetensors, or use model.weights = \"random\"") {
  std::uint64_t length = 0;
  if (file_.size() < 8) fault(path, "", "the file has only " + std::to_string(file_.size()) + " bytes");
  file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
  const auto available = static_cast<std::uint64_t>(file_.size() - 8);
  if (length > available || length > static_cast<std::uint64_t>(largest_header))
    fault(path, "",
          "the header is said to have " + std::to_string(length) + " bytes, but the file holds " +
              std::to_string(available) + " behind its length (and the format allows 100000000)");
  std::string text(length, '\0');
  file_.read(8, std::as_writable_bytes(std::span(text)));
  const json header = parse_unique(text, path);
  for (const auto& [name, entry] : header.items())
    if (name != "__metadata__") tensors_.emplace(name, read_entry(path, name, entry));
  const auto data_begin = static_cast<std::int64_t>(8 + length);
  require_seamless(path, tensors_, file_.size() - data_begin);
  for (auto& [name, info] : tensors_) info.begin += data_begin;
}

template <class T>
void SafetensorsFile::read(const std::string& name, std::int64_t first, std::span<T> out) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw input_error("there is no such tensor", path() + ": " + name, "Use weights of this architecture");
  const TensorInfo& info = found->second;
  const auto count = static_cast<std::int64_t>(out.size());
  if (first < 0 || first > info.elements || count > info.elements - first)
    throw input_error(std::to_string(count) + " elements from " + std::to_string(first) +
                          " on are asked for, but there are " + std::to_string(info.elements),
                      path() + ": " + name, "Use weights of this architecture");
  if (info.dtype != "F64" && info.dtype != "F32" && info.dtype != "F16" && info.dtype != "BF16")
    throw input_error("the type " + info.dtype + " cannot be read as weights", path() + ": " + name,
                      "Use weights in F64, F32, F16 or BF16");
  if (count == 0) return;
  const std::int64_t width = info.bytes / info.elements;
  std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(count * width, chunk_bytes)));
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t part = std::min(count - done, chunk_bytes / width);
    file_.read(info.begin + (first + done) * width,
               std::span(chunk.data(), static_cast<std::size_t>(part * width)));
    convert(chunk.data(), info.dtype,
            out.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(part)));
    done += part;
  }
}

SafetensorsFolder::SafetensorsFolder(const std::string& folder) : folder_(folder) {
  namespace fs = std::filesystem;
  const fs::path base(folder);
  const fs::path single = base / "model.safetensors", index = base / "model.safetensors.index.json";
  if (fs::exists(single)) {
    files_.emplace_back(single.string());
    for (const auto& [name, info] : files_[0].tensors()) file_of_[name] = 0;
    return;
  }
  std::ifstream in(index, std::ios::binary);
  if (!in)
    throw input_error("there is neither model.safetensors nor model.safetensors.index.json", folder,
                      "Name the folder of a model saved as safetensors, or use model.weights = \"random\"");
  const std::string text = config::read_up_to(in, largest_header, index.string(), get_it_again);
  const json object = parse_unique(text, index.string());
  const auto map = object.find("weight_map");
  if (map == object.end() || !map->is_object()) fault(index.string(), "weight_map", "the table is missing");
  std::map<std::string, std::size_t> shards;
  for (const auto& [name, shard] : map->items()) {
    const std::string file = shard.is_string() ? shard.get<std::string>() : "";
    // A plain file name: whatever the index says, nothing outside the folder is opened.
    if (file.empty() || file.size() > longest_name || file == ".." ||
        file.find_first_of("/\\") != std::string::npos || file.find('\0') != std::string::npos)
      fault(index.string(), name, "the file " + shown(shard) + " is no name of a file in this folder");
    const auto [position, is_new] = shards.emplace(file, files_.size());
    if (is_new) files_.emplace_back((base / file).string());
    if (files_[position->second].tensors().count(name) == 0)
      fault(files_[position->second].path(), name, "the tensor is missing, but the index places it here");
    file_of_[name] = position->second;
  }
  for (const SafetensorsFile& file : files_)
    for (const auto& [name, info] : file.tensors())
      if (file_of_.count(name) == 0 || &files_[file_of_[name]] != &file)
        fault(file.path(), name, "the index does not place this tensor here");
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> list;
  for (const auto& [name, file] : file_of_) list.push_back(name);
  return list;
}

const SafetensorsFile& SafetensorsFolder::file(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end())
    throw input_error("there is no such tensor", folder_ + ": " + name, "Use weights of this architecture");
  return files_[found->second];
}

const TensorInfo& SafetensorsFolder::info(const std::string& name) const {
  return file(name).tensors().at(name);
}

template <class T>
void SafetensorsFolder::read(const std::string& name, std::int64_t first, std::span<T> out) const {
  file(name).read(name, first, out);
}

std::vector<double> SafetensorsFolder::read(const std::string& name) const {
  std::vector<double> values(static_cast<std::size_t>(info(name).elements));
  read(name, 0, std::span(values));
  return values;
}

NameMatch match_names(const SafetensorsFolder& folder, const std::vector<std::string>& expected,
                      const std::string& base_prefix, const std::vector<std::string>& ignored) {
  NameMatch match;
  std::set<std::string> used(ignored.begin(), ignored.end());
  for (const std::string& name : expected) {
    std::string stored = name;
    if (!folder.contains(stored) && !base_prefix.empty() && name.rfind(base_prefix, 0) == 0)
      stored = name.substr(base_prefix.size());
    if (folder.contains(stored)) {
      match.stored[name] = stored;
      used.insert(stored);
    } else {
      match.missing.push_back(name);
    }
  }
  const auto is_buffer = [](const std::string& name) {
    for (const std::string end : {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"})
      if (name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
        return true;
    return false;
  };
  for (const std::string& name : folder.names())
    if (used.count(name) == 0 && !is_buffer(name)) match.extra.push_back(name);
  return match;
}

void require_complete(const NameMatch& match, const std::string& folder) {
  if (match.missing.empty() && match.extra.empty()) return;
  const auto list = [](const std::vector<std::string>& names) {
    constexpr std::size_t named = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), named); ++i)
      text += (i ? ", " : "") + shortened(names[i]);
    return names.size() > named ? text + " and " + std::to_string(names.size() - named) + " more" : text;
  };
  std::string what;
  if (!match.missing.empty()) what = "tensors are missing: " + list(match.missing);
  if (!match.extra.empty())
    what += (what.empty() ? "" : "; ") + std::string("the model has no place for: ") + list(match.extra);
  throw input_error(what, folder, "The weights have to be those of the architecture in config.json");
}

template void SafetensorsFile::read(const std::string&, std::int64_t, std::span<double>) const;
template void SafetensorsFile::read(const std::string&, std::int64_t, std::span<float>) const;
template void SafetensorsFolder::read(const std::string&, std::int64_t, std::span<double>) const;
template void SafetensorsFolder::read(const std::string&, std::int64_t, std::span<float>) const;

}  // namespace minisp::io
