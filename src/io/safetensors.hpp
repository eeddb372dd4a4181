// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Reader of Hugging Face weights: model.safetensors, or the shards that model.safetensors.index.json lists.
// Format of a file: 8 bytes n (little endian), n bytes of JSON {name: {dtype, shape, data_offsets}}, data.
#pragma once

#include "io/byte_file.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace minisp::io {

struct TensorInfo {
  std::string name;
  std::string dtype;  ///< as the file says: "F64", "F32", "F16", "BF16" can be read, others only listed
  std::vector<std::int64_t> shape;
  std::int64_t elements = 0;  ///< product of shape
  std::int64_t begin = 0;     ///< bytes from the start of the file
  std::int64_t bytes = 0;
};

/// One file; tensors stay on disk until they are read. The header is checked when the file is opened:
/// lengths, names, types, shapes against byte ranges, and that the ranges cover the data without overlap or
/// gap, as the format demands. Every fault is an Error (bad_input) that names the file and the tensor.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }

  /// out[i] = element first + i of the tensor in row-major order, converted exactly from the stored type to
  /// double, or rounded once to float. T is float or double. Throws Error where `name` is not in the file,
  /// the range leaves the tensor, or the type is not one of the four.
  template <class T>
  void read(const std::string& name, std::int64_t first, std::span<T> out) const;

 private:
  ByteFile file_;
  std::map<std::string, TensorInfo> tensors_;
};

/// The weights of a folder. With an index file, every tensor must lie in the shard that the index names, and
/// shard names that leave the folder are refused.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(const std::string& folder);

  const std::string& folder() const { return folder_; }
  std::vector<std::string> names() const;  ///< sorted
  bool contains(const std::string& name) const { return file_of_.count(name) > 0; }
  const TensorInfo& info(const std::string& name) const;
  const std::vector<std::int64_t>& shape(const std::string& name) const { return info(name).shape; }

  /// See SafetensorsFile::read.
  template <class T>
  void read(const std::string& name, std::int64_t first, std::span<T> out) const;
  /// The whole tensor, row-major.
  std::vector<double> read(const std::string& name) const;

 private:
  const SafetensorsFile& file(const std::string& name) const;

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;
};

/// Which stored tensor serves each name that a model expects.
struct NameMatch {
  std::map<std::string, std::string> stored;  ///< expected name -> name in the folder
  std::vector<std::string> missing;           ///< expected, not there
  std::vector<std::string> extra;             ///< there, not expected
};

/// `base_prefix` ("model.", "transformer.") may be absent from all names in the folder, as in files saved
/// from a model without its head (the published gpt2). Buffers that are no weights (causal masks, rotary
/// frequencies) and the names in `ignored` (a tied head stored all the same) are not counted as extra.
NameMatch match_names(const SafetensorsFolder& folder, const std::vector<std::string>& expected,
                      const std::string& base_prefix, const std::vector<std::string>& ignored = {});

/// Throws Error (bad_input) that lists (the first few of) missing and extra names; nothing when there are
/// none.
void require_complete(const NameMatch& match, const std::string& folder);

/// IEEE binary16 and bfloat16 bit patterns as float: exact.
float float_from_half(std::uint16_t bits);
float float_from_bfloat16(std::uint16_t bits);

}  // namespace minisp::io
