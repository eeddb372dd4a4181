// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/cross_entropy.hpp"

#include "math/exponential.hpp"
#include "math/gemm.hpp"
#include "math/row_reduce.hpp"
#include "util/kokkos_compat.hpp"

#include <algorithm>
#include <stdexcept>

namespace minisp::model {

template <class T>
void softmax_cross_entropy(const Exec& exec, const Matrix<T>& logits, const Vector<const int>& labels,
                           double loss_scale, bool with_gradient, const Vector<Accumulate<T>>& losses) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(logits.extent(1));
  Kokkos::parallel_for(
      "minisp::cross_entropy::softmax", math::row_teams(exec, static_cast<Index>(logits.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        T* const row = &logits(r, 0);
        const int label = labels(r);
        if (label < 0) {
          math::for_columns(team, columns, [=](const Index v) { row[v] = T(0); });
          Kokkos::single(Kokkos::PerTeam(team), [=]() { losses(r) = A(0); });
          return;
        }
        const A largest = math::row_max<A>(team, columns, Kokkos::reduction_identity<A>::max(),
                                           [=](const Index v) { return static_cast<A>(row[v]); });
        const A label_logit = static_cast<A>(row[label]);
        team.team_barrier();  // the label's logit is read before it is overwritten
        const A sum = math::row_sum<A>(team, columns, [=](const Index v) {
          const A power = math::exponential(static_cast<A>(row[v]) - largest);
          row[v] = static_cast<T>(power);
          return power;
        });
        Kokkos::single(Kokkos::PerTeam(team),
                       [=]() { losses(r) = (largest - label_logit) + compat::math::log(sum); });
        if (!with_gradient) return;
        team.team_barrier();
        const A factor = static_cast<A>(loss_scale) / sum;
        math::for_columns(team, columns,
                          [=](const Index v) { row[v] = static_cast<T>(static_cast<A>(row[v]) * factor); });
        team.team_barrier();
        Kokkos::single(Kokkos::PerTeam(team), [=]() {
          row[label] = static_cast<T>(static_cast<A>(row[label]) - static_cast<A>(loss_scale));
        });
      });
}

namespace {

using math::Op;

template <class A>
Vector<A> part_of(const Vector<A>& v, Index begin, Index end) {
  return Kokkos::subview(v, Kokkos::make_pair(begin, end));
}

/// Calls body(begin, end, logits of those rows) for one tile of rows after another.
template <class T, class Body>
void for_logit_tiles(const Exec& exec, const Matrix<const T>& hidden, const Matrix<const T>& weight,
                     const Matrix<T>& tile, const Body& body) {
  const Index rows = static_cast<Index>(hidden.extent(0)), chunk = static_cast<Index>(tile.extent(0));
  if (chunk < 1) throw std::invalid_argument("cross_entropy: the tile has no rows");
  for (Index begin = 0; begin < rows; begin += chunk) {
    const Index end = std::min(begin + chunk, rows);
    const auto logits = rows_of(tile, 0, end - begin);
    math::gemm<T>(exec, Op::none, Op::transpose, T(1), rows_of(hidden, begin, end), weight, T(0), logits);
    body(begin, end, logits);
  }
}

}  // namespace

template <class T>
void cross_entropy_forward_backward(const Exec& exec, const Matrix<const T>& hidden,
                                    const Matrix<const T>& weight, const Vector<const int>& labels,
                                    double loss_scale, const Matrix<T>& tile, const Matrix<T>& dhidden,
                                    const Matrix<Accumulate<T>>& dweight,
                                    const Vector<Accumulate<T>>& token_losses) {
  for_logit_tiles<T>(exec, hidden, weight, tile, [&](Index begin, Index end, const Matrix<T>& logits) {
    softmax_cross_entropy<T>(exec, logits, part_of(labels, begin, end), loss_scale, true,
                             part_of(token_losses, begin, end));
    math::gemm<T>(exec, Op::none, Op::none, T(1), logits, weight, T(0), rows_of(dhidden, begin, end));
    math::gemm<T>(exec, Op::transpose, Op::none, T(1), logits, rows_of(hidden, begin, end), T(1), dweight);
  });
}

template <class T>
void cross_entropy_forward(const Exec& exec, const Matrix<const T>& hidden, const Matrix<const T>& weight,
                           const Vector<const int>& labels, const Matrix<T>& tile,
                           const Vector<Accumulate<T>>& token_losses) {
  for_logit_tiles<T>(exec, hidden, weight, tile, [&](Index begin, Index end, const Matrix<T>& logits) {
    softmax_cross_entropy<T>(exec, logits, part_of(labels, begin, end), 0, false,
                             part_of(token_losses, begin, end));
  });
}

template <class A>
double sum_losses(const Exec& exec, const Vector<const A>& token_losses) {
  exec.fence();
  const auto losses = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), token_losses);
  double sum = 0;
  for (std::size_t r = 0; r < losses.extent(0); ++r) sum += static_cast<double>(losses(r));
  return sum;
}

#define MINISP_INSTANTIATE(T)                                                                             \
  template void cross_entropy_forward_backward<T>(                                                        \
      const Exec&, const Matrix<const T>&, const Matrix<const T>&, const Vector<const int>&, double,      \
      const Matrix<T>&, const Matrix<T>&, const Matrix<Accumulate<T>>&, const Vector<Accumulate<T>>&);    \
  template void cross_entropy_forward<T>(const Exec&, const Matrix<const T>&, const Matrix<const T>&,     \
                                         const Vector<const int>&, const Matrix<T>&,                      \
                                         const Vector<Accumulate<T>>&);                                   \
  template void softmax_cross_entropy<T>(const Exec&, const Matrix<T>&, const Vector<const int>&, double, \
                                         bool, const Vector<Accumulate<T>>&);                             \
  template double sum_losses<T>(const Exec&, const Vector<const T>&);
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::model
