// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// How much memory Kokkos holds for this process: every view that is allocated and freed is counted through
// Kokkos' own tool callbacks (a profiling tool that is loaded still gets them).
#pragma once

#include <cstddef>

namespace minisp {

class MemoryTracker {
 public:
  /// Starts counting; again: no effect. Call right after Kokkos::initialize.
  static void install();
  /// Bytes in Kokkos allocations now, and the most there were since reset_peak().
  static std::size_t current();
  static std::size_t peak();
  static void reset_peak();
};

/// The most memory that the whole process has had resident (Linux: VmHWM), 0 where it is not told.
std::size_t process_peak_bytes();

}  // namespace minisp
