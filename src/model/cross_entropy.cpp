// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/cross_entropy.hpp"

#include "math/exponential.hpp"
#include "math/gemm.hpp"
#include "math/row_reduce.hpp"
#include "util/kokkos_compat.hpp"

#include <algorithm>
#include <numbers>
#include <stdexcept>

namespace minisp::model {

template <class T>
LogitTile<T>::LogitTile(Index chunk, Index vocabulary)
    : logits(uninitialized("minisp::cross_entropy::logits"), chunk, vocabulary) {
  if constexpr (is_mixed<T>)
    gradient = Matrix<T>(uninitialized("minisp::cross_entropy::gradient"), chunk, vocabulary);
  else
    gradient = logits;
}

template <class T>
Index LogitTile<T>::bytes(Index chunk, Index vocabulary) {
  return chunk * vocabulary * Index(sizeof(Accumulate<T>) + (is_mixed<T> ? sizeof(T) : 0));
}

template <class T>
void softmax_cross_entropy(const Exec& exec, const Matrix<Accumulate<T>>& logits,
                           const Vector<const int>& labels, double loss_scale, const Matrix<T>& gradient,
                           const Vector<Accumulate<T>>& losses) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(logits.extent(1));
  const bool with_gradient = gradient.extent(0) > 0;
  Kokkos::parallel_for(
      "minisp::cross_entropy::softmax", math::row_teams(exec, static_cast<Index>(logits.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        A* const row = &logits(r, 0);
        T* const target = with_gradient ? &gradient(r, 0) : nullptr;
        const int label = labels(r);
        if (label < 0) {
          if (with_gradient) math::for_columns(team, columns, [=](const Index v) { target[v] = T(0); });
          Kokkos::single(Kokkos::PerTeam(team), [=]() { losses(r) = A(0); });
          return;
        }
        const A largest = math::row_max<A>(team, columns, Kokkos::reduction_identity<A>::max(),
                                           [=](const Index v) { return row[v]; });
        const A label_logit = row[label];
        team.team_barrier();  // the label's logit is read before it is overwritten
        // A logit's own rounding error is as large as that of its product with log2(e).
        const A sum = math::row_sum<A>(
            team, columns,
            [=](const Index v) {
              const A power = math::exp2((row[v] - largest) * std::numbers::log2e_v<A>);
              row[v] = power;
              return power;
            },
            math::RowsAhead<A>{row + row_stride(logits)});
        Kokkos::single(Kokkos::PerTeam(team),
                       [=]() { losses(r) = (largest - label_logit) + compat::math::log(sum); });
        if (!with_gradient) return;
        team.team_barrier();
        const A factor = static_cast<A>(loss_scale) / sum;
        const A label_gradient = row[label] * factor - static_cast<A>(loss_scale);
        team.team_barrier();  // likewise
        math::for_columns(team, columns, [=](const Index v) { target[v] = static_cast<T>(row[v] * factor); });
        team.team_barrier();
        Kokkos::single(Kokkos::PerTeam(team), [=]() { target[label] = static_cast<T>(label_gradient); });
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
                     const LogitTile<T>& tile, const Body& body) {
  using A = Accumulate<T>;
  const Index rows = static_cast<Index>(hidden.extent(0)), chunk = static_cast<Index>(tile.logits.extent(0));
  if (chunk < 1) throw std::invalid_argument("cross_entropy: the tile has no rows");
  for (Index begin = 0; begin < rows; begin += chunk) {
    const Index end = std::min(begin + chunk, rows);
    const Matrix<A> logits = rows_of(tile.logits, 0, end - begin);
    math::gemm<T>(exec, Op::none, Op::transpose, A(1), rows_of(hidden, begin, end), weight, A(0), logits);
    body(begin, end, logits);
  }
}

}  // namespace

template <class T>
void cross_entropy_forward_backward(const Exec& exec, const Matrix<const T>& hidden,
                                    const Matrix<const T>& weight, const Vector<const int>& labels,
                                    double loss_scale, const LogitTile<T>& tile, const Matrix<T>& dhidden,
                                    const Matrix<Accumulate<T>>& dweight,
                                    const Vector<Accumulate<T>>& token_losses) {
  using A = Accumulate<T>;
  for_logit_tiles<T>(exec, hidden, weight, tile, [&](Index begin, Index end, const Matrix<A>& logits) {
    const Matrix<T> gradient = rows_of(tile.gradient, 0, end - begin);
    softmax_cross_entropy<T>(exec, logits, part_of(labels, begin, end), loss_scale, gradient,
                             part_of(token_losses, begin, end));
    math::gemm<T>(exec, Op::none, Op::none, A(1), gradient, weight, A(0), rows_of(dhidden, begin, end));
    math::gemm<T>(exec, Op::transpose, Op::none, A(1), gradient, rows_of(hidden, begin, end), A(1), dweight);
  });
}

template <class T>
void cross_entropy_forward(const Exec& exec, const Matrix<const T>& hidden, const Matrix<const T>& weight,
                           const Vector<const int>& labels, const LogitTile<T>& tile,
                           const Vector<Accumulate<T>>& token_losses) {
  using A = Accumulate<T>;
  for_logit_tiles<T>(exec, hidden, weight, tile, [&](Index begin, Index end, const Matrix<A>& logits) {
    softmax_cross_entropy<T>(exec, logits, part_of(labels, begin, end), 0, Matrix<T>(),
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
  template struct LogitTile<T>;                                                                           \
  template void cross_entropy_forward_backward<T>(                                                        \
      const Exec&, const Matrix<const T>&, const Matrix<const T>&, const Vector<const int>&, double,      \
      const LogitTile<T>&, const Matrix<T>&, const Matrix<Accumulate<T>>&, const Vector<Accumulate<T>>&); \
  template void cross_entropy_forward<T>(const Exec&, const Matrix<const T>&, const Matrix<const T>&,     \
                                         const Vector<const int>&, const LogitTile<T>&,                   \
                                         const Vector<Accumulate<T>>&);                                   \
  template void softmax_cross_entropy<T>(const Exec&, const Matrix<Accumulate<T>>&,                       \
                                         const Vector<const int>&, double, const Matrix<T>&,              \
                                         const Vector<Accumulate<T>>&);
MINISP_INSTANTIATE(bfloat16)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE
template double sum_losses<float>(const Exec&, const Vector<const float>&);
template double sum_losses<double>(const Exec&, const Vector<const double>&);

}  // namespace minisp::model
