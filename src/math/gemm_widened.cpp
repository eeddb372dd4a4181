// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/gemm_widened.hpp"

#include "math/row_reduce.hpp"

#include <algorithm>
#include <vector>

namespace minisp::math {

namespace {

// Tiles large enough that the product runs at full rate and each widened element is used hundreds of times.
constexpr Index tile_rows = 512, tile_columns = 1024, tile_depth = 2048;

/// Rows [r0, r0 + rows) and columns [c0, c0 + columns) of m in the wider type, close together.
template <class T>
Matrix<Accumulate<T>> widen(const Exec& exec, const Matrix<const T>& m, Index r0, Index rows, Index c0,
                            Index columns, std::vector<Accumulate<T>>& memory) {
  using A = Accumulate<T>;
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(rows * columns)));
  const Matrix<A> wide(memory.data(), rows, columns);
  Kokkos::parallel_for(
      "minisp::gemm::widen", row_teams(exec, rows), KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T* const source = &m(r0 + r, c0);
        A* const target = &wide(r, 0);
        for_columns(team, columns, [=](const Index i) { target[i] = static_cast<A>(source[i]); });
      });
  return wide;
}

/// c = sum + beta c, c not read when beta is 0.
template <class A, class C>
void leave(const Exec& exec, const Matrix<const A>& sum, A beta, const Matrix<C>& c) {
  const Index columns = static_cast<Index>(c.extent(1));
  Kokkos::parallel_for(
      "minisp::gemm::leave", row_teams(exec, static_cast<Index>(c.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const A* const source = &sum(r, 0);
        C* const target = &c(r, 0);
        if (beta == A(0))
          for_columns(team, columns, [=](const Index i) { target[i] = static_cast<C>(source[i]); });
        else
          for_columns(team, columns, [=](const Index i) {
            target[i] = static_cast<C>(source[i] + beta * static_cast<A>(target[i]));
          });
      });
}

}  // namespace

template <class T, class C>
void gemm_widened(const Exec& exec, Op op_a, Op op_b, Accumulate<T> alpha, const Matrix<const T>& a,
                  const Matrix<const T>& b, Accumulate<T> beta, const Matrix<C>& c) {
  using A = Accumulate<T>;
  static std::vector<A> a_memory, b_memory, c_memory;
  const Index m = static_cast<Index>(c.extent(0)), n = static_cast<Index>(c.extent(1));
  const Index k = static_cast<Index>(op_a == Op::none ? a.extent(1) : a.extent(0));
  // A tile of op(M) from (row, column): of M itself where it is transposed the other way round.
  const auto tile = [&](const Matrix<const T>& x, Op op, Index r, Index rows, Index column, Index columns,
                        std::vector<A>& memory) {
    return op == Op::none ? widen<T>(exec, x, r, rows, column, columns, memory)
                          : widen<T>(exec, x, column, columns, r, rows, memory);
  };
  for (Index j = 0; j < n; j += tile_columns) {
    const Index columns = std::min(tile_columns, n - j);
    for (Index i = 0; i < m; i += tile_rows) {
      const Index rows = std::min(tile_rows, m - i);
      c_memory.resize(std::max(c_memory.size(), static_cast<std::size_t>(rows * columns)));
      const Matrix<A> sum(c_memory.data(), rows, columns);
      for (Index d = 0; d < k; d += tile_depth) {
        const Index depth = std::min(tile_depth, k - d);
        const auto left = tile(a, op_a, i, rows, d, depth, a_memory);
        // One tile of B serves all rows as long as the depth fits into one tile.
        if (i == 0 || k > tile_depth) tile(b, op_b, d, depth, j, columns, b_memory);
        const Matrix<const A> right = op_b == Op::none ? Matrix<const A>(b_memory.data(), depth, columns)
                                                       : Matrix<const A>(b_memory.data(), columns, depth);
        gemm<A, A>(exec, op_a, op_b, alpha, left, right, d == 0 ? A(0) : A(1), sum);
      }
      leave<A, C>(exec, sum, beta, rows_of(columns_of(c, j, j + columns), i, i + rows));
    }
  }
  exec.fence();  // the next product takes the same memory
}

template void gemm_widened(const Exec&, Op, Op, float, const Matrix<const bfloat16>&,
                           const Matrix<const bfloat16>&, float, const Matrix<float>&);
template void gemm_widened(const Exec&, Op, Op, float, const Matrix<const bfloat16>&,
                           const Matrix<const bfloat16>&, float, const Matrix<bfloat16>&);

}  // namespace minisp::math
