// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Input: a model.safetensors.index.json. Beside it lie a.safetensors (tensor x) and b.safetensors (tensor y).
#include "fuzz_support.hpp"
#include "io/safetensors.hpp"

#include <filesystem>
#include <fstream>
#include <optional>

using namespace minisp::fuzz;
using minisp::io::SafetensorsFolder;

namespace {

namespace fs = std::filesystem;

void write_shard(const fs::path& path, const std::string& name) {
  const std::string header = "{\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  const std::uint64_t length = header.size();
  std::ofstream(path, std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&length), sizeof length) << header << "abcd";
}

/// Made once, removed when the process ends in good order.
struct Folder {
  Folder() {
    std::string name = (fs::exists("/dev/shm") ? "/dev/shm" : "/tmp") + std::string("/minisp-fuzz-XXXXXX");
    require(mkdtemp(name.data()) != nullptr, "there is a folder");
    path = name;
    write_shard(path / "a.safetensors", "x");
    write_shard(path / "b.safetensors", "y");
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  std::ofstream(folder.path / "model.safetensors.index.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  std::optional<SafetensorsFolder> files;
  if (!accepts([&] { files.emplace(folder.path.string()); })) return 0;
  for (const std::string& name : files->names()) {
    require(name == "x" || name == "y", "nothing outside of the folder is read");
    require(files->read(name).size() == 1, "tensors can be read");
  }
  return 0;
}
