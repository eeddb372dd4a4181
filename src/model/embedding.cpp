// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/embedding.hpp"

#include "math/row_reduce.hpp"

#include <algorithm>
#include <stdexcept>

namespace minisp::model {

TokenIndex::TokenIndex(Index max_rows)
    : values_("minisp::token_index::values", max_rows),
      offsets_("minisp::token_index::offsets", max_rows + 1),
      row_order_("minisp::token_index::row_order", max_rows),
      host_values_(Kokkos::create_mirror_view(values_)),
      host_offsets_(Kokkos::create_mirror_view(offsets_)),
      host_order_(Kokkos::create_mirror_view(row_order_)) {}

void TokenIndex::set(const HostVector<const int>& values) {
  rows_ = static_cast<Index>(values.extent(0));
  if (rows_ > static_cast<Index>(row_order_.extent(0)))
    throw std::invalid_argument("TokenIndex: more rows than it was made for");
  Exec().fence();  // kernels of the last batch may still read the views
  int* const order = host_order_.data();
  for (Index r = 0; r < rows_; ++r) order[r] = static_cast<int>(r);
  std::sort(order, order + rows_,
            [&](int a, int b) { return values(a) != values(b) ? values(a) < values(b) : a < b; });
  groups_ = 0;
  for (Index i = 0; i < rows_; ++i) {
    if (i > 0 && values(order[i]) == values(order[i - 1])) continue;
    host_values_(groups_) = values(order[i]);
    host_offsets_(groups_) = static_cast<int>(i);
    ++groups_;
  }
  host_offsets_(groups_) = static_cast<int>(rows_);
  Kokkos::deep_copy(values_, host_values_);
  Kokkos::deep_copy(offsets_, host_offsets_);
  Kokkos::deep_copy(row_order_, host_order_);
}

template <class T>
void embedding_forward(const Exec& exec, const Vector<const int>& tokens, const Matrix<const T>& table,
                       const Matrix<T>& out) {
  const Index columns = static_cast<Index>(out.extent(1)), last = static_cast<Index>(out.extent(0)) - 1;
  Kokkos::parallel_for(
      "minisp::embedding::forward", math::row_teams(exec, static_cast<Index>(out.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T* const source = &table(tokens(r), 0);
        T* const target = &out(r, 0);
        const math::RowsAhead<T> ahead{&table(tokens(r < last ? r + 1 : r), 0)};
        math::for_columns(
            team, columns, [=](const Index c) { target[c] = source[c]; }, ahead);
      });
}

template <class T>
void embedding_forward(const Exec& exec, const Vector<const int>& tokens, const Matrix<const T>& table,
                       const Vector<const int>& positions, const Matrix<const T>& position_table,
                       const Matrix<T>& out) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(out.extent(1)), last = static_cast<Index>(out.extent(0)) - 1;
  Kokkos::parallel_for(
      "minisp::embedding::forward", math::row_teams(exec, static_cast<Index>(out.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T* const token = &table(tokens(r), 0);
        const T* const position = &position_table(positions(r), 0);
        T* const target = &out(r, 0);
        const math::RowsAhead<T> ahead{&table(tokens(r < last ? r + 1 : r), 0)};
        math::for_columns(
            team, columns,
            [=](const Index c) {
              target[c] = static_cast<T>(static_cast<A>(token[c]) + static_cast<A>(position[c]));
            },
            ahead);
      });
}

template <class T>
void embedding_backward(const Exec& exec, const TokenIndex& index, const Matrix<const T>& dout,
                        const Matrix<Accumulate<T>>& dtable) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(dout.extent(1));
  const auto values = index.values(), offsets = index.offsets(), row_order = index.row_order();
  Kokkos::parallel_for(
      "minisp::embedding::backward", math::row_teams(exec, index.groups()),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index group = static_cast<Index>(team.league_rank());
        A* const target = &dtable(values(group), 0);
        for (int i = offsets(group); i < offsets(group + 1); ++i) {
          const T* const source = &dout(row_order(i), 0);
          math::for_columns(team, columns, [=](const Index c) { target[c] += static_cast<A>(source[c]); });
        }
      });
}

#define MINISP_INSTANTIATE(T)                                                                             \
  template void embedding_forward<T>(const Exec&, const Vector<const int>&, const Matrix<const T>&,       \
                                     const Matrix<T>&);                                                   \
  template void embedding_forward<T>(const Exec&, const Vector<const int>&, const Matrix<const T>&,       \
                                     const Vector<const int>&, const Matrix<const T>&, const Matrix<T>&); \
  template void embedding_backward<T>(const Exec&, const TokenIndex&, const Matrix<const T>&,             \
                                      const Matrix<Accumulate<T>>&);
MINISP_INSTANTIATE(bfloat16)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::model
