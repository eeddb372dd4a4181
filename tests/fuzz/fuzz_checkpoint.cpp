// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Input: bytes of a file, or (by the first byte) a recipe of HDF5 objects that are written and sealed. The
// seal keeps every damage from HDF5, so that damaged HDF5 is not tried; sealed files with other content are.
#include "comm/communicator.hpp"
#include "fuzz_support.hpp"
#include "io/checkpoint_file.hpp"
#include "io/provenance.hpp"
#include "io/seal.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <fuzzer/FuzzedDataProvider.h>
#include <optional>
#include <vector>

using namespace minisp::fuzz;
namespace io = minisp::io;

std::string io::version_text() {
  return "fuzz";  // in place of provenance.cpp, which links the libraries that it asks
}

namespace {

const std::string& scratch_file() {
  static const std::string path = (std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp") +
                                  ("/minisp-fuzz-" + std::to_string(getpid()) + ".h5");
  return path;
}

const minisp::comm::Communicator& alone() {
  static const auto self = minisp::comm::Communicator::self();
  return self;
}

bool is_sealed(const std::string& path) {
  return accepts([&] { io::require_seal(alone(), path, "Take a copy"); });
}

/// What a restart reads before it compares settings with its deck, and the arrays.
void read(const std::string& path) {
  accepts([&] {
    const auto header = io::read_checkpoint_header(path);
    const auto file = io::open_for_reading(path);
    for (const auto& state : header.states) {
      const auto dataset = io::open_dataset(file.get(), "/" + state + "/x");
      const auto shape = io::shape_of(dataset.get());
      if (shape.size() > 2 || io::elements_of(shape) > 4096) continue;
      std::vector<double> values(static_cast<std::size_t>(io::elements_of(shape)));
      io::read_slab(dataset.get(), {io::Shape(shape.size(), 0), shape}, values.data());
    }
  });
}

constexpr std::array names{"format", "format_version", "software", "steps_done",
                           "states", "train.steps",    "x"};

/// An attribute or a dataset of any of the types that files here have.
void write_value(FuzzedDataProvider& recipe, hid_t file) {
  const std::string name = recipe.PickValueInArray(names);
  const bool in_settings = recipe.ConsumeBool();
  const auto group = in_settings ? io::make_group(file, "/settings") : io::H5Group();
  const hid_t object = in_settings ? group.get() : file;
  const auto text = [&] {
    std::string word =
        recipe.ConsumeBool() ? io::checkpoint_format_name : recipe.ConsumeRandomLengthString(40);
    word.erase(std::remove(word.begin(), word.end(), '\0'), word.end());
    return word;
  };
  switch (recipe.ConsumeIntegralInRange(0, 8)) {
    case 0:
      return io::write_attribute(object, name, text());
    case 1:
      return io::write_attribute(object, name, recipe.ConsumeIntegral<std::int64_t>());
    case 2:
      return io::write_attribute<std::int64_t>(object, name, recipe.ConsumeIntegralInRange(0, 3));
    case 3:
      return io::write_attribute(object, name, recipe.ConsumeFloatingPoint<double>());
    case 4:
      return io::write_attribute(object, name, std::vector<std::string>{"weights", text()});
    case 5:
      return io::write_attribute(object, name, std::vector<std::int64_t>{1, 2});
    case 6:
      return io::write_attribute(object, name, std::vector<std::string>{});
    case 7: {
      const std::vector<double> values(recipe.ConsumeIntegralInRange<std::size_t>(0, 20), 0.5);
      return io::write_dataset(file, "/weights/x", values, "1", "numbers");
    }
    default:
      return io::write_text(file, "/" + name + "/x", text(), "text");
  }
}

/// A file of the given objects, sealed as a checkpoint is.
void write_sealed(FuzzedDataProvider& recipe, const std::string& path) {
  {
    const io::H5Properties creation(H5Pcreate(H5P_FILE_CREATE));
    H5Pset_userblock(creation.get(), io::seal_bytes);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    const io::H5File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT));
    require(static_cast<bool>(file), "there is room for a file");
    if (recipe.ConsumeBool()) io::write_header(file.get(), {3, {{"train.steps", "3"}}, {"weights"}});
    for (int count = 0; count < 20 && recipe.remaining_bytes() > 0; ++count) try {
        write_value(recipe, file.get());
      } catch (const minisp::Error&) {  // an object is there already, as another one
      }
  }
  const io::ByteFile file(path, "");
  io::write_seal(path, io::sum_of_words(file, io::seal_bytes, file.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string& path = scratch_file();
  if (data[0] % 2 == 0) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(data + 1), static_cast<std::streamsize>(size - 1));
    if (is_sealed(path)) read(path);
  } else {
    FuzzedDataProvider recipe(data + 1, size - 1);
    write_sealed(recipe, path);
    require(is_sealed(path), "what was sealed is found whole");
    read(path);
    // One byte of it changed.
    const auto length = static_cast<std::int64_t>(std::filesystem::file_size(path));
    const auto place =
        static_cast<std::streamoff>(recipe.ConsumeIntegralInRange<std::int64_t>(0, length - 1));
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const int byte = file.seekg(place).get();
    file.seekp(place);
    file.put(static_cast<char>(byte ^ (1 << recipe.ConsumeIntegralInRange(0, 7))));
    file.close();
    require(!is_sealed(path), "damage is seen");
  }
  return 0;
}
