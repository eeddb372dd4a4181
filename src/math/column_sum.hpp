// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Sums over the rows of a matrix (gradients of biases and norm weights): partial sums of short blocks of
// rows, then the sum over the blocks, both in a fixed order. No atomics: two runs give the same bits.
#pragma once

#include "math/precision.hpp"
#include "util/views.hpp"

namespace minisp::math {

/// Rows whose sum is one partial sum: few enough that a device has work for all its multiprocessors, many
/// enough that writing and reading the partial sums costs a small part of reading the rows.
constexpr Index rows_per_partial_sum = 16;

KOKKOS_INLINE_FUNCTION Index partial_sum_rows(Index rows) {
  return (rows + rows_per_partial_sum - 1) / rows_per_partial_sum;
}
/// Elements of workspace for sums over `rows` rows of `columns` columns.
inline Index column_sum_workspace(Index rows, Index columns) {
  return partial_sum_rows(rows) * columns;
}

/// sums(c) += sum_r m(r, c). workspace: column_sum_workspace(rows, columns) elements.
template <class T>
void add_column_sums(const Exec& exec, const Matrix<const T>& m, const Vector<Accumulate<T>>& workspace,
                     const Vector<Accumulate<T>>& sums);

/// The second half of the above, for kernels that form the partial sums themselves:
/// sums(c) += sum_p partial(p, c).
template <class A>
void add_partial_sums(const Exec& exec, const Matrix<const A>& partial, const Vector<A>& sums);

}  // namespace minisp::math
