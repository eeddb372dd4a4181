// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/column_sum.hpp"

#include "math/row_reduce.hpp"

namespace minisp::math {

template <class T>
void add_column_sums(const Exec& exec, const Matrix<const T>& m, const Vector<Accumulate<T>>& workspace,
                     const Vector<Accumulate<T>>& sums) {
  using A = Accumulate<T>;
  const Index rows = static_cast<Index>(m.extent(0)), columns = static_cast<Index>(m.extent(1));
  const Matrix<A> partial(workspace.data(), partial_sum_rows(rows), columns);
  Kokkos::parallel_for(
      "minisp::column_sum::partial", row_teams(exec, partial_sum_rows(rows)),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index block = static_cast<Index>(team.league_rank());
        const Index begin = block * rows_per_partial_sum;
        const Index end = begin + rows_per_partial_sum < rows ? begin + rows_per_partial_sum : rows;
        A* const sum = &partial(block, 0);
        for_columns(team, columns, [=](const Index c) { sum[c] = A(0); });
        // Four rows at a time: a quarter of the passes over the partial sums.
        Index r = begin;
        for (; r + 4 <= end; r += 4) {
          const T *const row0 = &m(r, 0), *const row1 = &m(r + 1, 0);
          const T *const row2 = &m(r + 2, 0), *const row3 = &m(r + 3, 0);
          for_columns(team, columns, [=](const Index c) {
            sum[c] += (static_cast<A>(row0[c]) + static_cast<A>(row1[c])) +
                      (static_cast<A>(row2[c]) + static_cast<A>(row3[c]));
          });
        }
        for (; r < end; ++r) {
          const T* const row = &m(r, 0);
          for_columns(team, columns, [=](const Index c) { sum[c] += static_cast<A>(row[c]); });
        }
      });
  add_partial_sums<A>(exec, partial, sums);
}

template <class A>
void add_partial_sums(const Exec& exec, const Matrix<const A>& partial, const Vector<A>& sums) {
  const Index rows = static_cast<Index>(partial.extent(0)), columns = static_cast<Index>(partial.extent(1));
  // A host core streams long pieces of rows; a device wants many teams.
  constexpr Index tile = rows_on_host ? 1024 : 32;
  Kokkos::parallel_for(
      "minisp::column_sum::total", row_teams(exec, (columns + tile - 1) / tile),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index begin = static_cast<Index>(team.league_rank()) * tile;
        const Index count = columns - begin < tile ? columns - begin : tile;
        A* const sum = &sums(begin);
        for (Index r = 0; r < rows; ++r) {
          const A* const row = &partial(r, begin);
          for_columns(team, count, [=](const Index c) { sum[c] += row[c]; });
        }
      });
}

template void add_column_sums<bfloat16>(const Exec&, const Matrix<const bfloat16>&, const Vector<float>&,
                                        const Vector<float>&);
template void add_column_sums<float>(const Exec&, const Matrix<const float>&, const Vector<float>&,
                                     const Vector<float>&);
template void add_column_sums<double>(const Exec&, const Matrix<const double>&, const Vector<double>&,
                                      const Vector<double>&);
template void add_partial_sums<float>(const Exec&, const Matrix<const float>&, const Vector<float>&);
template void add_partial_sums<double>(const Exec&, const Matrix<const double>&, const Vector<double>&);

}  // namespace minisp::math
