// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/elementwise.hpp"

#include "math/precision.hpp"
#include "math/row_reduce.hpp"

namespace minisp::model {

template <class T>
void add(const Exec& exec, const Matrix<const T>& y, const Matrix<T>& x) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(x.extent(1));
  Kokkos::parallel_for(
      "minisp::elementwise::add", math::row_teams(exec, static_cast<Index>(x.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T* const source = &y(r, 0);
        T* const target = &x(r, 0);
        math::for_columns(team, columns, [=](const Index c) {
          target[c] = static_cast<T>(static_cast<A>(target[c]) + static_cast<A>(source[c]));
        });
      });
}

template <class T>
void scale(const Exec& exec, T factor, const Vector<T>& x) {
  Kokkos::parallel_for(
      "minisp::elementwise::scale", RowPolicy(exec, 0, static_cast<Index>(x.extent(0))),
      KOKKOS_LAMBDA(const Index i) { x(i) *= factor; });
}

#define MINISP_INSTANTIATE(T)                                                  \
  template void add<T>(const Exec&, const Matrix<const T>&, const Matrix<T>&); \
  template void scale<T>(const Exec&, T, const Vector<T>&);
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::model
