// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/sum_of_squares.hpp"

#include "math/row_reduce.hpp"

#include <algorithm>

namespace minisp::math {

namespace {
// Small enough that a device has work for all its multiprocessors, large enough that the sum over the partial
// sums is nothing.
constexpr Index block = 8192;
}  // namespace

Index partial_sums(Index n) {
  return (n + block - 1) / block;
}

template <class T>
double sum_of_squares(const Exec& exec, const Vector<const T>& values, const Vector<double>& workspace) {
  const Index n = static_cast<Index>(values.extent(0));
  Kokkos::parallel_for(
      "minisp::sum_of_squares", row_teams(exec, partial_sums(n)), KOKKOS_LAMBDA(const TeamMember& team) {
        const Index begin = static_cast<Index>(team.league_rank()) * block;
        const T* const part = values.data() + begin;
        const double sum = row_sum<double>(team, n - begin < block ? n - begin : block, [=](const Index i) {
          const double value = static_cast<double>(part[i]);
          return value * value;
        });
        Kokkos::single(Kokkos::PerTeam(team), [=]() { workspace(team.league_rank()) = sum; });
      });
  const auto sums = Kokkos::create_mirror_view_and_copy(
      Kokkos::HostSpace(), Kokkos::subview(workspace, Kokkos::make_pair(Index(0), partial_sums(n))));
  double total = 0;
  for (Index i = 0; i < partial_sums(n); ++i) total += sums(i);
  return total;
}

template double sum_of_squares<bfloat16>(const Exec&, const Vector<const bfloat16>&, const Vector<double>&);
template double sum_of_squares<float>(const Exec&, const Vector<const float>&, const Vector<double>&);
template double sum_of_squares<double>(const Exec&, const Vector<const double>&, const Vector<double>&);

}  // namespace minisp::math
