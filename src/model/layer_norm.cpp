// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/layer_norm.hpp"

#include "math/column_sum.hpp"
#include "math/row_reduce.hpp"
#include "util/kokkos_compat.hpp"

namespace minisp::model {

namespace {

/// One expression for the forward pass and for recomputation, so that both give the same bits.
template <class T>
KOKKOS_INLINE_FUNCTION void normalise_row(const TeamMember& team, Index columns, const T* x, const T* weight,
                                          const T* bias, Accumulate<T> mean, Accumulate<T> inverse, T* out,
                                          const math::RowsAhead<T>& ahead) {
  using A = Accumulate<T>;
  math::for_columns(
      team, columns,
      [=](const Index c) {
        const A normal = (static_cast<A>(x[c]) - mean) * inverse;
        out[c] = static_cast<T>(normal * static_cast<A>(weight[c]) + static_cast<A>(bias[c]));
      },
      ahead);
}

/// The second half of both forward passes: from the row's sum to its statistics and the output.
template <class T>
KOKKOS_INLINE_FUNCTION void finish_row(const TeamMember& team, Index columns, Accumulate<T> sum,
                                       double epsilon, const T* x, const T* weight, const T* bias, T* out,
                                       Accumulate<T>* mean_out, Accumulate<T>* inverse_out,
                                       const math::RowsAhead<T>& next_in, const T* next_out) {
  using A = Accumulate<T>;
  const A mean = sum / static_cast<A>(columns);
  const A squares = math::row_sum<A>(
      team, columns,
      [=](const Index c) {
        const A deviation = static_cast<A>(x[c]) - mean;
        return deviation * deviation;
      },
      next_in);
  const A inverse = A(1) / compat::math::sqrt(squares / static_cast<A>(columns) + static_cast<A>(epsilon));
  Kokkos::single(Kokkos::PerTeam(team), [=]() {
    *mean_out = mean;
    *inverse_out = inverse;
  });
  normalise_row<T>(team, columns, x, weight, bias, mean, inverse, out, {next_out});
}

}  // namespace

template <class T>
void layer_norm_forward(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                        const Vector<const T>& bias, double epsilon, const Matrix<T>& out,
                        const Vector<Accumulate<T>>& mean, const Vector<Accumulate<T>>& inverse_deviation) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(x.extent(1));
  Kokkos::parallel_for(
      "minisp::layer_norm::forward", math::row_teams(exec, static_cast<Index>(x.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T* const row = &x(r, 0);
        T* const target = &out(r, 0);
        const A sum = math::row_sum<A>(team, columns, [=](const Index c) { return static_cast<A>(row[c]); });
        finish_row<T>(team, columns, sum, epsilon, row, weight.data(), bias.data(), target, &mean(r),
                      &inverse_deviation(r), {row + row_stride(x)}, target + row_stride(out));
      });
}

template <class T>
void residual_layer_norm_forward(const Exec& exec, const Matrix<const T>& x, const Matrix<const T>& branch,
                                 const Vector<const T>& weight, const Vector<const T>& bias, double epsilon,
                                 const Matrix<T>& sum, const Matrix<T>& out,
                                 const Vector<Accumulate<T>>& mean,
                                 const Vector<Accumulate<T>>& inverse_deviation) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(x.extent(1));
  Kokkos::parallel_for(
      "minisp::layer_norm::residual_forward", math::row_teams(exec, static_cast<Index>(x.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T *const kept = &x(r, 0), *const added = &branch(r, 0);
        T *const row = &sum(r, 0), *const target = &out(r, 0);
        const A total = math::row_sum<A>(
            team, columns,
            [=](const Index c) {
              row[c] = static_cast<T>(static_cast<A>(kept[c]) + static_cast<A>(added[c]));
              return static_cast<A>(row[c]);
            },
            math::RowsAhead<T>{row + row_stride(sum)});
        team.team_barrier();
        finish_row<T>(team, columns, total, epsilon, row, weight.data(), bias.data(), target, &mean(r),
                      &inverse_deviation(r), {kept + row_stride(x), added + row_stride(branch)},
                      target + row_stride(out));
      });
}

template <class T>
void layer_norm_recompute(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                          const Vector<const T>& bias, const Vector<const Accumulate<T>>& mean,
                          const Vector<const Accumulate<T>>& inverse_deviation, const Matrix<T>& out) {
  const Index columns = static_cast<Index>(x.extent(1));
  Kokkos::parallel_for(
      "minisp::layer_norm::recompute", math::row_teams(exec, static_cast<Index>(x.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T* const row = &x(r, 0);
        T* const target = &out(r, 0);
        normalise_row<T>(team, columns, row, weight.data(), bias.data(), mean(r), inverse_deviation(r),
                         target, {row + row_stride(x), target + row_stride(out)});
      });
}

template <class T>
void layer_norm_backward(const Exec& exec, const Matrix<const T>& x, const Vector<const T>& weight,
                         const Vector<const Accumulate<T>>& mean,
                         const Vector<const Accumulate<T>>& inverse_deviation, const Matrix<const T>& dout,
                         Accumulation dx_mode, const Matrix<T>& dx, const Vector<Accumulate<T>>& workspace,
                         const Vector<Accumulate<T>>& dweight, const Vector<Accumulate<T>>& dbias) {
  using A = Accumulate<T>;
  const Index rows = static_cast<Index>(x.extent(0)), columns = static_cast<Index>(x.extent(1));
  const Index blocks = math::partial_sum_rows(rows);
  const Matrix<A> partial(workspace.data(), blocks, 2 * columns);
  const bool add = dx_mode == Accumulation::add;
  Kokkos::parallel_for(
      "minisp::layer_norm::backward", math::row_teams(exec, blocks), KOKKOS_LAMBDA(const TeamMember& team) {
        const Index block = static_cast<Index>(team.league_rank());
        const Index begin = block * math::rows_per_partial_sum;
        const Index end =
            begin + math::rows_per_partial_sum < rows ? begin + math::rows_per_partial_sum : rows;
        const T* const w = weight.data();
        A *const dw = &partial(block, 0), *const db = dw + columns;
        math::for_columns(team, columns, [=](const Index c) { dw[c] = db[c] = A(0); });
        for (Index r = begin; r < end; ++r) {
          const T *const x_row = &x(r, 0), *const dout_row = &dout(r, 0);
          T* const dx_row = &dx(r, 0);
          const A center = mean(r), inverse = inverse_deviation(r);
          const A mean_g =
              math::row_sum<A>(
                  team, columns,
                  [=](const Index c) { return static_cast<A>(dout_row[c]) * static_cast<A>(w[c]); },
                  math::RowsAhead<T>{dx_row}) /
              static_cast<A>(columns);
          const A mean_gn = math::row_sum<A>(
                                team, columns,
                                [=](const Index c) {
                                  return static_cast<A>(dout_row[c]) * static_cast<A>(w[c]) *
                                         ((static_cast<A>(x_row[c]) - center) * inverse);
                                },
                                math::RowsAhead<T>{dout_row + row_stride(dout)}) /
                            static_cast<A>(columns);
          math::for_columns(
              team, columns,
              [=](const Index c) {
                const A gradient = static_cast<A>(dout_row[c]);
                const A normal = (static_cast<A>(x_row[c]) - center) * inverse;
                const A d = inverse * (gradient * static_cast<A>(w[c]) - mean_g - normal * mean_gn);
                dw[c] += gradient * normal;
                db[c] += gradient;
                dx_row[c] = static_cast<T>(add ? static_cast<A>(dx_row[c]) + d : d);
              },
              math::RowsAhead<T>{x_row + row_stride(x)});
        }
      });
  math::add_partial_sums<A>(exec, columns_of(partial, 0, columns), dweight);
  math::add_partial_sums<A>(exec, columns_of(partial, columns, 2 * columns), dbias);
}

#define MINISP_INSTANTIATE(T)                                                                               \
  template void layer_norm_forward<T>(const Exec&, const Matrix<const T>&, const Vector<const T>&,          \
                                      const Vector<const T>&, double, const Matrix<T>&,                     \
                                      const Vector<Accumulate<T>>&, const Vector<Accumulate<T>>&);          \
  template void residual_layer_norm_forward<T>(const Exec&, const Matrix<const T>&, const Matrix<const T>&, \
                                               const Vector<const T>&, const Vector<const T>&, double,      \
                                               const Matrix<T>&, const Matrix<T>&,                          \
                                               const Vector<Accumulate<T>>&, const Vector<Accumulate<T>>&); \
  template void layer_norm_recompute<T>(const Exec&, const Matrix<const T>&, const Vector<const T>&,        \
                                        const Vector<const T>&, const Vector<const Accumulate<T>>&,         \
                                        const Vector<const Accumulate<T>>&, const Matrix<T>&);              \
  template void layer_norm_backward<T>(                                                                     \
      const Exec&, const Matrix<const T>&, const Vector<const T>&, const Vector<const Accumulate<T>>&,      \
      const Vector<const Accumulate<T>>&, const Matrix<const T>&, Accumulation, const Matrix<T>&,           \
      const Vector<Accumulate<T>>&, const Vector<Accumulate<T>>&, const Vector<Accumulate<T>>&);
MINISP_INSTANTIATE(bfloat16)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::model
