// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Input: a config.json.
#include "config/hugging_face.hpp"
#include "config/hugging_face_writer.hpp"
#include "fuzz_support.hpp"

using namespace minisp::config;
using namespace minisp::fuzz;

namespace {

Architecture read(const std::string& text) {
  const MemoryFile file(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  Architecture architecture = read_hugging_face_config(file.path()).architecture;
  architecture.name.clear();
  return architecture;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Architecture architecture;
  if (!accepts([&] { architecture = read(text); })) return 0;
  require(architecture.parameters() > 0, "sizes that are accepted do not overflow");
  // What a config.json can say can be exported, and comes back.
  require(exported_family(architecture) == architecture.family, "a file's family is exported as itself");
  Architecture again;
  require(accepts([&] { again = read(hugging_face_config(architecture, "float32", -1)); }),
          "an exported file can be read");
  require(again == architecture, "an exported file says the same");
  return 0;
}
