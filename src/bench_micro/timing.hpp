// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Timing for ratios: what is compared runs in turn within one loop, and medians are compared, so that a
// machine whose speed drifts changes both.
#pragma once

#include "math/gemm.hpp"
#include "util/views.hpp"

#include <algorithm>
#include <time.h>
#include <type_traits>
#include <vector>

namespace minisp::bench_micro {

#ifdef KOKKOS_ENABLE_SERIAL
inline constexpr bool one_thread = std::is_same_v<Exec, Kokkos::Serial>;
#else
inline constexpr bool one_thread = false;
#endif

/// Seconds by the wall, or, where all work is this thread's, seconds that it had a processor: other programs
/// on the machine then count little.
inline double clock_seconds() {
  timespec now;
  clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Seconds of one call, with everything that it started.
template <class Work>
double seconds_of(const Work& work) {
  const double start = clock_seconds();
  work();
  Exec().fence();
  return clock_seconds() - start;
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// The yardstick of compute-bound kernels: C = A B, 1024 x 1024 x 1024, through the adaptor.
template <class T>
class GemmYardstick {
 public:
  GemmYardstick() : a_("bench::a", size, size), b_("bench::b", size, size), c_("bench::c", size, size) {
    Kokkos::deep_copy(a_, T(1));
    Kokkos::deep_copy(b_, T(1));
    run();
  }
  void run() { math::gemm<T>(Exec(), math::Op::none, math::Op::none, T(1), a_, b_, T(0), c_); }
  static constexpr double flops = 2.0 * 1024 * 1024 * 1024;

 private:
  static constexpr int size = 1024;
  Matrix<T> a_, b_, c_;
};

}  // namespace minisp::bench_micro
