// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/mlp.hpp"

#include "math/exponential.hpp"
#include "math/precision.hpp"
#include "math/row_reduce.hpp"

#include <numbers>

namespace minisp::model {

namespace {

constexpr double gelu_scale = 0.797884560802865355880;  // sqrt(2/pi)
constexpr double gelu_cubic = 0.044715;

/// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), u = sqrt(2/pi) (v + 0.044715 v^3).
template <class A>
KOKKOS_FORCEINLINE_FUNCTION A gelu_gate(A v) {
  constexpr A scale = static_cast<A>(-2 * gelu_scale * std::numbers::log2e),
              cubic = static_cast<A>(-2 * gelu_scale * gelu_cubic * std::numbers::log2e);
  return math::over_one_plus_exp2(v * (scale + cubic * v * v));
}

}  // namespace

template <class T>
void swiglu_forward(const Exec& exec, const Matrix<const T>& gate_up, const Matrix<T>& act) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(act.extent(1));
  Kokkos::parallel_for(
      "minisp::swiglu::forward", math::row_teams(exec, static_cast<Index>(act.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T *const gate = &gate_up(r, 0), *const up = gate + columns;
        T* const out = &act(r, 0);
        math::for_columns(
            team, columns,
            [=](const Index c) {
              const A g = static_cast<A>(gate[c]);
              out[c] = static_cast<T>(g * math::sigmoid(g) * static_cast<A>(up[c]));
            },
            math::RowsAhead<T>{gate + row_stride(gate_up), up + row_stride(gate_up)});
      });
}

template <class T>
void swiglu_backward(const Exec& exec, const Matrix<const T>& gate_up, const Matrix<const T>& dact,
                     const Matrix<T>& act, const Matrix<T>& dgate_up) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(dact.extent(1));
  Kokkos::parallel_for(
      "minisp::swiglu::backward", math::row_teams(exec, static_cast<Index>(dact.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T *const gate = &gate_up(r, 0), *const up = gate + columns, *const dout = &dact(r, 0);
        T *const out = &act(r, 0), *const dgate = &dgate_up(r, 0), *const dup = dgate + columns;
        math::for_columns(team, columns, [=](const Index c) {
          const A g = static_cast<A>(gate[c]), u = static_cast<A>(up[c]), d = static_cast<A>(dout[c]);
          const A s = math::sigmoid(g), silu = g * s;
          dgate[c] = static_cast<T>(d * u * (s + silu * (A(1) - s)));
          dup[c] = static_cast<T>(d * silu);
          out[c] = static_cast<T>(silu * u);
        });
      });
}

template <class T>
void gelu_tanh_forward(const Exec& exec, const Matrix<const T>& x, const Matrix<T>& act) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(x.extent(1));
  Kokkos::parallel_for(
      "minisp::gelu::forward", math::row_teams(exec, static_cast<Index>(x.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T* const in = &x(r, 0);
        T* const out = &act(r, 0);
        math::for_columns(
            team, columns,
            [=](const Index c) {
              const A v = static_cast<A>(in[c]);
              out[c] = static_cast<T>(v * gelu_gate(v));
            },
            math::RowsAhead<T>{in + row_stride(x), out + row_stride(act)});
      });
}

template <class T>
void gelu_tanh_backward(const Exec& exec, const Matrix<const T>& x, const Matrix<const T>& dact,
                        const Matrix<T>& act, const Matrix<T>& dx) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(x.extent(1));
  Kokkos::parallel_for(
      "minisp::gelu::backward", math::row_teams(exec, static_cast<Index>(x.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T *const in = &x(r, 0), *const dout = &dact(r, 0);
        T *const out = &act(r, 0), *const target = &dx(r, 0);
        math::for_columns(team, columns, [=](const Index c) {
          constexpr A scale = static_cast<A>(2 * gelu_scale),
                      cubic = static_cast<A>(2 * gelu_scale * gelu_cubic);
          const A v = static_cast<A>(in[c]);
          const A s = gelu_gate(v);
          const A slope = s + v * s * (A(1) - s) * (scale + 3 * cubic * v * v);
          const A gradient = static_cast<A>(dout[c]);
          out[c] = static_cast<T>(v * s);
          target[c] = static_cast<T>(gradient * slope);
        });
      });
}

#define MINISP_INSTANTIATE(T)                                                                      \
  template void swiglu_forward<T>(const Exec&, const Matrix<const T>&, const Matrix<T>&);          \
  template void swiglu_backward<T>(const Exec&, const Matrix<const T>&, const Matrix<const T>&,    \
                                   const Matrix<T>&, const Matrix<T>&);                            \
  template void gelu_tanh_forward<T>(const Exec&, const Matrix<const T>&, const Matrix<T>&);       \
  template void gelu_tanh_backward<T>(const Exec&, const Matrix<const T>&, const Matrix<const T>&, \
                                      const Matrix<T>&, const Matrix<T>&);
MINISP_INSTANTIATE(bfloat16)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::model
