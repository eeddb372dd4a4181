// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/column_sum.hpp"

#include "math/row_reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace minisp::math {
namespace {

// Free functions hold the kernels: nvcc allows no device lambda in a test's body.

Matrix<double> numbered(Index rows, Index columns) {
  const Matrix<double> m("test", rows, columns + 3);
  Kokkos::parallel_for(
      "test::numbered", RowPolicy(0, rows), KOKKOS_LAMBDA(const Index r) {
        for (Index c = 0; c < columns; ++c) m(r, c) = static_cast<double>(r * columns + c + 1);
        for (Index c = columns; c < columns + 3; ++c) m(r, c) = -1e300;
      });
  return columns_of(m, 0, columns);
}

/// sum, largest and number of visits of each row, by the helpers.
void reduce_rows(const Matrix<double>& m, const Vector<double>& sums, const Vector<double>& maxima,
                 const Vector<double>& lane_sums, const Matrix<double>& visits) {
  const Index columns = static_cast<Index>(m.extent(1));
  Kokkos::parallel_for(
      "test::reduce", row_teams(Exec(), static_cast<Index>(m.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const double sum = row_sum<double>(team, columns, [=](const Index c) { return m(r, c); });
        const double largest = row_max<double>(team, columns, -1.0, [=](const Index c) { return m(r, c); });
        Kokkos::single(Kokkos::PerTeam(team), [=]() {
          sums(r) = sum;
          maxima(r) = largest;
        });
        for_columns(team, columns, [=](const Index c) { visits(r, c) += 1; });
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, 1), [&](const int) {
          const double total = lane_sum<double>(team, columns, [=](const Index c) { return m(r, c); });
          for_lanes(team, columns, [=](const Index c) { visits(r, c) += 1; });
          Kokkos::single(Kokkos::PerThread(team), [=]() { lane_sums(r) = total; });
        });
      });
}

// Lengths about the number of lanes and the length of a block of terms; all sums are exact integers.
TEST(RowReduce, EveryColumnCountsOnce) {
  for (const Index columns : {1, 2, 31, 32, 33, 67, 4095, 4096, 4097, 8200}) {
    constexpr Index rows = 3;
    const auto m = numbered(rows, columns);
    const Vector<double> sums("test", rows), maxima("test", rows), lane_sums("test", rows);
    const Matrix<double> visits("test", rows, columns);
    reduce_rows(m, sums, maxima, lane_sums, visits);
    Exec().fence();
    const auto host_sums = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), sums);
    const auto host_maxima = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), maxima);
    const auto host_lane_sums = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), lane_sums);
    const auto host_visits = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), visits);
    for (Index r = 0; r < rows; ++r) {
      const double first = static_cast<double>(r * columns + 1),
                   last = static_cast<double>((r + 1) * columns);
      EXPECT_EQ(host_sums(r), (first + last) / 2 * static_cast<double>(columns));
      EXPECT_EQ(host_lane_sums(r), host_sums(r));
      EXPECT_EQ(host_maxima(r), last);
      for (Index c = 0; c < columns; ++c) ASSERT_EQ(host_visits(r, c), 2);
    }
  }
}

TEST(ColumnSum, AddsTheSumOverTheRows) {
  for (const Index rows : {1, 15, 16, 17, 100})
    for (const Index columns : {1, 33, 1024, 1500}) {
      const auto m = numbered(rows, columns);
      const Vector<double> sums("test", columns), workspace("test", column_sum_workspace(rows, columns));
      Kokkos::deep_copy(sums, 7.0);
      Kokkos::deep_copy(workspace, std::nan(""));
      add_column_sums<double>(Exec(), m, workspace, sums);
      Exec().fence();
      const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), sums);
      for (Index c = 0; c < columns; ++c) {
        const double mean = static_cast<double>(c + 1) + static_cast<double>((rows - 1) * columns) / 2;
        ASSERT_EQ(host(c), 7 + mean * static_cast<double>(rows)) << rows << "x" << columns << " column " << c;
      }
    }
}

}  // namespace
}  // namespace minisp::math
