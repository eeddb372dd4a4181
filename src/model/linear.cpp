// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/linear.hpp"

#include "math/column_sum.hpp"
#include "math/gemm.hpp"
#include "math/row_reduce.hpp"

#include <stdexcept>
#include <string>

namespace minisp::model {

namespace {

using math::Op;

/// Number of column blocks in which x holds the `columns` columns of `rows` rows.
template <class X>
Index blocks_of(const X& x, Index rows, Index columns, const char* where) {
  const Index x_rows = static_cast<Index>(x.extent(0)), x_columns = static_cast<Index>(x.extent(1));
  const Index blocks = x_columns > 0 ? columns / x_columns : 0;
  if (blocks * x_columns != columns || blocks * rows != x_rows)
    throw std::invalid_argument(std::string(where) + ": x is " + std::to_string(x_rows) + "x" +
                                std::to_string(x_columns) + ", not column blocks of " + std::to_string(rows) +
                                " rows by " + std::to_string(columns) + " columns");
  return blocks;
}

/// y = or += the bias (none: 0) in every row, and what `wide` holds, if it holds anything.
template <class T>
void put_bias(const Exec& exec, const Vector<const T>& bias, const Matrix<const Accumulate<T>>& wide,
              Accumulation mode, const Matrix<T>& y) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(y.extent(1));
  const bool add = mode == Accumulation::add, has_bias = bias.extent(0) > 0, has_wide = wide.extent(0) > 0;
  Kokkos::parallel_for(
      "minisp::linear::bias", math::row_teams(exec, static_cast<Index>(y.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T* const b = has_bias ? bias.data() : nullptr;
        const A* const sum = has_wide ? &wide(r, 0) : nullptr;
        T* const row = &y(r, 0);
        math::for_columns(team, columns, [=](const Index c) {
          A value = add ? static_cast<A>(row[c]) : A(0);
          if (sum) value += sum[c];
          if (b) value += static_cast<A>(b[c]);
          row[c] = static_cast<T>(value);
        });
      });
}

template <class T>
Accumulate<T> beta_of(Accumulation mode) {
  return mode == Accumulation::add ? 1 : 0;
}

template <class T>
constexpr Accumulate<T> one = 1;

}  // namespace

template <class T>
void linear_forward(const Exec& exec, const Matrix<const T>& x, const Matrix<const T>& weight,
                    const Vector<const T>& bias, Accumulation mode, const Matrix<T>& y,
                    const Matrix<Accumulate<T>>& wide) {
  const Index rows = static_cast<Index>(y.extent(0)), in = static_cast<Index>(weight.extent(1));
  const Index blocks = blocks_of(x, rows, in, "linear_forward"), width = in / blocks;
  const auto add_products = [&](Accumulation first, const auto& sum) {
    for (Index b = 0; b < blocks; ++b)
      math::gemm<T>(exec, Op::none, Op::transpose, one<T>, rows_of(x, b * rows, (b + 1) * rows),
                    columns_of(weight, b * width, (b + 1) * width),
                    beta_of<T>(b == 0 ? first : Accumulation::add), sum);
  };
  if constexpr (is_mixed<T>) {
    if (blocks > 1) {
      if (wide.extent(0) != y.extent(0) || wide.extent(1) != y.extent(1))
        throw std::invalid_argument("linear_forward: column blocks of this type need a wide workspace");
      add_products(Accumulation::overwrite, wide);
      return put_bias<T>(exec, bias, wide, mode, y);
    }
  }
  if (bias.extent(0) > 0) {
    put_bias<T>(exec, bias, {}, mode, y);
    mode = Accumulation::add;
  }
  add_products(mode, y);
}

template <class T>
void linear_backward_input(const Exec& exec, const Matrix<const T>& dy, const Matrix<const T>& weight,
                           Accumulation mode, const Matrix<T>& dx) {
  const Index rows = static_cast<Index>(dy.extent(0)), in = static_cast<Index>(weight.extent(1));
  const Index blocks = blocks_of(dx, rows, in, "linear_backward_input"), width = in / blocks;
  for (Index b = 0; b < blocks; ++b)
    math::gemm<T>(exec, Op::none, Op::none, one<T>, dy, columns_of(weight, b * width, (b + 1) * width),
                  beta_of<T>(mode), rows_of(dx, b * rows, (b + 1) * rows));
}

template <class T>
void linear_backward_weight(const Exec& exec, const Matrix<const T>& dy, const Matrix<const T>& x,
                            Accumulation mode, const Matrix<Accumulate<T>>& dweight) {
  const Index rows = static_cast<Index>(dy.extent(0)), in = static_cast<Index>(dweight.extent(1));
  const Index blocks = blocks_of(x, rows, in, "linear_backward_weight"), width = in / blocks;
  for (Index b = 0; b < blocks; ++b)
    math::gemm<T>(exec, Op::transpose, Op::none, one<T>, dy, rows_of(x, b * rows, (b + 1) * rows),
                  beta_of<T>(mode), columns_of(dweight, b * width, (b + 1) * width));
}

template <class T>
void linear_backward_bias(const Exec& exec, const Matrix<const T>& dy, const Vector<Accumulate<T>>& workspace,
                          const Vector<Accumulate<T>>& dbias) {
  math::add_column_sums<T>(exec, dy, workspace, dbias);
}

#define MINISP_INSTANTIATE(T)                                                                              \
  template void linear_forward<T>(const Exec&, const Matrix<const T>&, const Matrix<const T>&,             \
                                  const Vector<const T>&, Accumulation, const Matrix<T>&,                  \
                                  const Matrix<Accumulate<T>>&);                                           \
  template void linear_backward_input<T>(const Exec&, const Matrix<const T>&, const Matrix<const T>&,      \
                                         Accumulation, const Matrix<T>&);                                  \
  template void linear_backward_weight<T>(const Exec&, const Matrix<const T>&, const Matrix<const T>&,     \
                                          Accumulation, const Matrix<Accumulate<T>>&);                     \
  template void linear_backward_bias<T>(const Exec&, const Matrix<const T>&, const Vector<Accumulate<T>>&, \
                                        const Vector<Accumulate<T>>&);
MINISP_INSTANTIATE(bfloat16)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::model
