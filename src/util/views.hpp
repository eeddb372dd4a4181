// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The view types of miniSP. Everything is row-major: one token, one row.
#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace minisp {

/// Rows, elements and offsets are counted in 64 bits: buffers may exceed 2^31 elements.
using Index = std::int64_t;

using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;

template <class T>
using Vector = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;
/// (rows, columns); a column range of one (Kokkos::subview(m, Kokkos::ALL, pair)) is a Matrix too.
template <class T>
using Matrix = Kokkos::View<T**, Kokkos::LayoutRight, Memory>;
template <class T>
using HostVector = Kokkos::View<T*, Kokkos::LayoutRight, Kokkos::HostSpace>;
template <class T>
using HostMatrix = Kokkos::View<T**, Kokkos::LayoutRight, Kokkos::HostSpace>;

using RowPolicy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<Index>>;
using TeamPolicy = Kokkos::TeamPolicy<Exec, Kokkos::IndexType<Index>>;
using TeamMember = TeamPolicy::member_type;

/// Rows [begin, end) of a matrix.
template <class T>
Matrix<T> rows_of(const Matrix<T>& m, Index begin, Index end) {
  return Kokkos::subview(m, Kokkos::make_pair(begin, end), Kokkos::ALL);
}
/// Columns [begin, end) of a matrix; the row stride stays.
template <class T>
Matrix<T> columns_of(const Matrix<T>& m, Index begin, Index end) {
  return Kokkos::subview(m, Kokkos::ALL, Kokkos::make_pair(begin, end));
}
/// Distance between rows in elements.
template <class T>
KOKKOS_INLINE_FUNCTION Index row_stride(const Matrix<T>& m) {
  return static_cast<Index>(m.stride(0));
}
/// A view that is about to be written whole: no initialising pass.
inline auto uninitialized(const std::string& label) {
  return Kokkos::view_alloc(label, Kokkos::WithoutInitializing);
}

}  // namespace minisp
