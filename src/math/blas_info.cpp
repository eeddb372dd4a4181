// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/blas_info.hpp"

#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace minisp::math {

namespace {

/// One field of the first processor in /proc/cpuinfo; empty where there is none (other systems).
std::string cpuinfo(const std::string& field) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.compare(0, field.size(), field) == 0)
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return {};
}

std::set<std::string> processor_flags() {
  std::istringstream words(cpuinfo("flags"));
  return {std::istream_iterator<std::string>(words), {}};
}

/// Kernels of OpenBLAS that use AVX-512 and AVX2; any other x86 name it gives is older.
bool kernel_uses_avx512(const std::string& kernel) {
  return kernel == "SkylakeX" || kernel == "Cooperlake" || kernel == "SapphireRapids";
}
bool kernel_uses_avx2(const std::string& kernel) {
  return kernel_uses_avx512(kernel) || kernel == "Haswell" || kernel == "Zen" || kernel == "Excavator";
}

}  // namespace

BlasInfo blas_info() {
  BlasInfo info{"unknown BLAS", "unknown", false, ""};
  using Text = char* (*)();
  auto* config = reinterpret_cast<Text>(dlsym(RTLD_DEFAULT, "openblas_get_config"));
  auto* core = reinterpret_cast<Text>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (!config || !core) return info;
  info.library = config();
  info.kernel = core();
  const auto flags = processor_flags();
  info.fallback = (flags.count("avx512f") && !kernel_uses_avx512(info.kernel)) ||
                  (flags.count("avx2") && !kernel_uses_avx2(info.kernel));
  if (info.fallback)
    info.advice = "OpenBLAS does not know this processor and runs its " + info.kernel +
                  " kernel: install a newer OpenBLAS (or BLIS, MKL), or build with oneDNN for fp32";
  return info;
}

std::string processor_name() {
  const auto name = cpuinfo("model name");
  return name.empty() ? "unknown processor" : name;
}

std::string processor_vector_extension() {
  const auto flags = processor_flags();
  if (flags.count("avx512_bf16")) return "AVX-512 with bf16";
  if (flags.count("avx512f")) return "AVX-512";
  if (flags.count("avx2")) return "AVX2";
  if (flags.count("asimd")) return "NEON";
  return "unknown";
}

}  // namespace minisp::math
