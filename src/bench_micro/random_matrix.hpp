// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Operands of benchmarks in any storage type.
#pragma once

#include "math/precision.hpp"
#include "util/views.hpp"

#include <Kokkos_Random.hpp>

namespace minisp::bench_micro {

/// (rows, columns) of uniform numbers in [-limit, limit): the same for every T but for its rounding.
template <class T>
Matrix<T> random_matrix(Index rows, Index columns, Accumulate<T> limit) {
  const Matrix<Accumulate<T>> wide(uninitialized("bench::wide"), rows, columns);
  const Matrix<T> stored(uninitialized("bench::random"), rows, columns);
  Kokkos::Random_XorShift64_Pool<Exec> random(1);
  Kokkos::fill_random(wide, random, -limit, limit);
  Kokkos::parallel_for(
      "bench::round", RowPolicy(0, rows * columns),
      KOKKOS_LAMBDA(const Index i) { stored.data()[i] = static_cast<T>(wide.data()[i]); });
  return stored;
}

}  // namespace minisp::bench_micro
