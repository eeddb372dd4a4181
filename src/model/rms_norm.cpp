// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/rms_norm.hpp"

#include "math/column_sum.hpp"
#include "math/row_reduce.hpp"
#include "util/kokkos_compat.hpp"

namespace minisp::model {

namespace {

/// One expression for the forward pass and for recomputation, so that both give the same bits.
template <class T>
KOKKOS_INLINE_FUNCTION void normalise_row(const TeamMember& team, Index columns, const T* x, const T* weight,
                                          Accumulate<T> inverse, T* out, const math::RowsAhead<T>& next) {
  using A = Accumulate<T>;
  math::for_columns(
      team, columns,
      [=](const Index c) {
        out[c] = static_cast<T>(static_cast<A>(x[c]) * inverse * static_cast<A>(weight[c]));
      },
      next);
}

template <class T>
KOKKOS_INLINE_FUNCTION Accumulate<T> inverse_from_sum(Accumulate<T> sum_of_squares, Index columns,
                                                      double epsilon) {
  using A = Accumulate<T>;
  return A(1) / compat::math::sqrt(sum_of_squares / static_cast<A>(columns) + static_cast<A>(epsilon));
}

}  // namespace

template <class T>
void rms_norm_forward(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                      double epsilon, const Matrix<T>& out, const Vector<Accumulate<T>>& inverse_rms) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(x.extent(1));
  Kokkos::parallel_for(
      "minisp::rms_norm::forward", math::row_teams(exec, static_cast<Index>(x.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T* const row = &x(r, 0);
        T* const target = &out(r, 0);
        const A sum = math::row_sum<A>(
            team, columns,
            [=](const Index c) {
              const A value = static_cast<A>(row[c]);
              return value * value;
            },
            math::RowsAhead<T>{target});
        const A inverse = inverse_from_sum<T>(sum, columns, epsilon);
        Kokkos::single(Kokkos::PerTeam(team), [=]() { inverse_rms(r) = inverse; });
        normalise_row<T>(team, columns, row, weight.data(), inverse, target, {row + row_stride(x)});
      });
}

template <class T>
void residual_rms_norm_forward(const Exec& exec, const Matrix<const T>& x, const Matrix<const T>& branch,
                               const Vector<const T>& weight, double epsilon, const Matrix<T>& sum,
                               const Matrix<T>& out, const Vector<Accumulate<T>>& inverse_rms) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(x.extent(1));
  Kokkos::parallel_for(
      "minisp::rms_norm::residual_forward", math::row_teams(exec, static_cast<Index>(x.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T *const kept = &x(r, 0), *const added = &branch(r, 0);
        T* const row = &sum(r, 0);
        T* const target = &out(r, 0);
        const A total = math::row_sum<A>(
            team, columns,
            [=](const Index c) {
              row[c] = static_cast<T>(static_cast<A>(kept[c]) + static_cast<A>(added[c]));
              const A value = static_cast<A>(row[c]);
              return value * value;
            },
            math::RowsAhead<T>{target, row + row_stride(sum)});
        const A inverse = inverse_from_sum<T>(total, columns, epsilon);
        Kokkos::single(Kokkos::PerTeam(team), [=]() { inverse_rms(r) = inverse; });
        team.team_barrier();
        normalise_row<T>(team, columns, row, weight.data(), inverse, target,
                         {kept + row_stride(x), added + row_stride(branch)});
      });
}

template <class T>
void rms_norm_recompute(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                        const Vector<const Accumulate<T>>& inverse_rms, const Matrix<T>& out) {
  const Index columns = static_cast<Index>(x.extent(1));
  Kokkos::parallel_for(
      "minisp::rms_norm::recompute", math::row_teams(exec, static_cast<Index>(x.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        normalise_row<T>(team, columns, &x(r, 0), weight.data(), inverse_rms(r), &out(r, 0),
                         {&x(r, 0) + row_stride(x)});
      });
}

template <class T>
void rms_norm_backward(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                       const Vector<const Accumulate<T>>& inverse_rms, const Matrix<const T>& dout,
                       Accumulation dx_mode, const Matrix<T>& dx, const Vector<Accumulate<T>>& workspace,
                       const Vector<Accumulate<T>>& dweight) {
  using A = Accumulate<T>;
  const Index rows = static_cast<Index>(x.extent(0)), columns = static_cast<Index>(x.extent(1));
  const Index blocks = math::partial_sum_rows(rows);
  const Matrix<A> partial(workspace.data(), blocks, columns);
  const bool add = dx_mode == Accumulation::add;
  Kokkos::parallel_for(
      "minisp::rms_norm::backward", math::row_teams(exec, blocks), KOKKOS_LAMBDA(const TeamMember& team) {
        const Index block = static_cast<Index>(team.league_rank());
        const Index begin = block * math::rows_per_partial_sum;
        const Index end =
            begin + math::rows_per_partial_sum < rows ? begin + math::rows_per_partial_sum : rows;
        const T* const w = weight.data();
        A* const dw = &partial(block, 0);
        math::for_columns(team, columns, [=](const Index c) { dw[c] = A(0); });
        for (Index r = begin; r < end; ++r) {
          const T *const x_row = &x(r, 0), *const dout_row = &dout(r, 0);
          T* const dx_row = &dx(r, 0);
          const A inverse = inverse_rms(r);
          const A sum = math::row_sum<A>(
              team, columns,
              [=](const Index c) {
                return static_cast<A>(dout_row[c]) * static_cast<A>(w[c]) * static_cast<A>(x_row[c]);
              },
              math::RowsAhead<T>{dx_row});
          const A slope = inverse * inverse * sum / static_cast<A>(columns);
          math::for_columns(
              team, columns,
              [=](const Index c) {
                const A gradient = static_cast<A>(dout_row[c]), value = static_cast<A>(x_row[c]);
                const A d = inverse * (gradient * static_cast<A>(w[c]) - value * slope);
                dw[c] += gradient * value * inverse;
                dx_row[c] = static_cast<T>(add ? static_cast<A>(dx_row[c]) + d : d);
              },
              math::RowsAhead<T>{dout_row + row_stride(dout), x_row + row_stride(x)});
        }
      });
  math::add_partial_sums<A>(exec, partial, dweight);
}

#define MINISP_INSTANTIATE(T)                                                                             \
  template void rms_norm_forward<T>(const Exec&, const Matrix<const T>&, const Vector<const T>&, double,  \
                                    const Matrix<T>&, const Vector<Accumulate<T>>&);                      \
  template void residual_rms_norm_forward<T>(const Exec&, const Matrix<const T>&, const Matrix<const T>&, \
                                             const Vector<const T>&, double, const Matrix<T>&,            \
                                             const Matrix<T>&, const Vector<Accumulate<T>>&);             \
  template void rms_norm_recompute<T>(const Exec&, const Matrix<const T>&, const Vector<const T>&,        \
                                      const Vector<const Accumulate<T>>&, const Matrix<T>&);              \
  template void rms_norm_backward<T>(const Exec&, const Matrix<const T>&, const Vector<const T>&,         \
                                     const Vector<const Accumulate<T>>&, const Matrix<const T>&,          \
                                     Accumulation, const Matrix<T>&, const Vector<Accumulate<T>>&,        \
                                     const Vector<Accumulate<T>>&);
MINISP_INSTANTIATE(bfloat16)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::model
