// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Which BLAS is linked and which of its kernels runs.
#pragma once

#include <string>

namespace minisp::math {

struct BlasInfo {
  std::string library;    ///< "OpenBLAS 0.3.21 ...", or "unknown BLAS"
  std::string kernel;     ///< the kernel family it chose at run time, for example "SkylakeX"; or "unknown"
  bool fallback = false;  ///< the kernel does not use the vector instructions that the processor has
  std::string advice;     ///< when it is the fallback: what to do, one sentence; else empty
};

BlasInfo blas_info();

/// The processor's model name and the widest vector extension ("AVX-512 with bf16", "AVX2", ...).
std::string processor_name();
std::string processor_vector_extension();

}  // namespace minisp::math
