// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Loops over the columns of a row inside a team kernel: one source that is a vectorised loop on the host and
// a team of threads with vector lanes on a device.
//
// In ISO mode a compiler may not reorder a floating-point sum, and so does not vectorise it. The host sums
// are therefore spelt as many independent partial sums, which vectorise, hide the latency of the addition,
// and are folded pairwise; blocks of `block_terms` terms bound the rounding error of rows of 10^5 columns.
// The order depends on the length and the team size alone.
#pragma once

#include "util/views.hpp"

#include <Kokkos_Core.hpp>

#include <type_traits>

// Before a loop whose iterations are independent although the compiler cannot see it (in-place passes).
#if defined(__CUDACC__) || defined(__HIPCC__)
#define MINISP_INDEPENDENT_ITERATIONS
#elif defined(__clang__)
#define MINISP_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define MINISP_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#else
#define MINISP_INDEPENDENT_ITERATIONS
#endif

namespace minisp::math {

constexpr bool rows_on_host = std::is_same_v<Memory, Kokkos::HostSpace>;

/// One team for each row (or block of rows), with vector lanes where the space has them.
inline TeamPolicy row_teams(const Exec& exec, Index teams) {
  return TeamPolicy(exec, teams, Kokkos::AUTO, rows_on_host ? 1 : 32);
}

/// Host: asks for a row (or a piece of one) ahead of its use, in passes where that was measured to pay. A row
/// past the end is harmless. Nothing on a device, where other teams fill the gap.
template <class T>
KOKKOS_INLINE_FUNCTION void prefetch_row([[maybe_unused]] const T* row, [[maybe_unused]] Index n) {
#if defined(__GNUC__) && !defined(__CUDACC__) && !defined(__HIPCC__)
  constexpr Index cache_line = 64 / sizeof(T);
  if constexpr (rows_on_host)
    for (Index c = 0; c < n; c += cache_line) __builtin_prefetch(row + c, 0, 2);
#endif
}

/// Up to two rows that a pass over the columns asks for as it goes, a few cache lines a step, so that memory
/// works while the pass computes: the next row to be read (hardware prefetchers stop at each page and know
/// nothing of gathered rows), or a row about to be written (a store fetches its cache line too).
template <class T>
struct RowsAhead {
  const T *first, *second = nullptr;
  KOKKOS_INLINE_FUNCTION void operator()(Index c, Index count) const {
    prefetch_row(first + c, count);
    if (second) prefetch_row(second + c, count);
  }
};
struct NothingAhead {
  KOKKOS_INLINE_FUNCTION void operator()(Index, Index) const {}
};

namespace detail {

/// Partial sums in flight. Rows: 256 bytes, four vectors of the widest processors and eight of AVX2. Heads:
/// one of the widest vectors, which the usual head sizes are multiples of.
template <class A>
constexpr int row_lanes = 256 / static_cast<int>(sizeof(A));
template <class A>
constexpr int head_lanes = 64 / static_cast<int>(sizeof(A));
constexpr Index block_terms = 4096;

struct Columns {
  Index begin, end;
};
KOKKOS_INLINE_FUNCTION Columns own_columns(const TeamMember& team, Index n) {
  const Index rank = team.team_rank(), size = team.team_size();
  return {n * rank / size, n * (rank + 1) / size};
}

struct Plus {
  template <class A>
  KOKKOS_INLINE_FUNCTION A operator()(A a, A b) const {
    return a + b;
  }
};
struct Larger {
  template <class A>
  KOKKOS_INLINE_FUNCTION A operator()(A a, A b) const {
    return a > b ? a : b;
  }
};

template <int width, class A, class Join>
KOKKOS_INLINE_FUNCTION A fold(A* values, const Join& join) {
  if constexpr (width == 1) {
    return values[0];
  } else {
    for (int lane = 0; lane < width / 2; ++lane) values[lane] = join(values[lane], values[lane + width / 2]);
    return fold<width / 2>(values, join);
  }
}

template <int width, class A, class Join, class Term, class Ahead = NothingAhead>
KOKKOS_INLINE_FUNCTION A reduce_lanes(Columns columns, A identity, const Join& join, const Term& term,
                                      const Ahead& ahead = {}) {
  A total = identity;
  for (Index block = columns.begin; block < columns.end; block += block_terms) {
    const Index end = columns.end - block < block_terms ? columns.end : block + block_terms;
    A values[width];
    for (int lane = 0; lane < width; ++lane) values[lane] = identity;
    Index c = block;
    for (; c + width <= end; c += width) {
      ahead(c, width);
      for (int lane = 0; lane < width; ++lane) values[lane] = join(values[lane], term(c + lane));
    }
    for (; c < end; ++c) total = join(total, term(c));
    total = join(total, fold<width>(values, join));
  }
  return total;
}

template <class Body>
KOKKOS_INLINE_FUNCTION void loop(Columns columns, const Body& body) {
  MINISP_INDEPENDENT_ITERATIONS
  for (Index c = columns.begin; c < columns.end; ++c) body(c);
}
template <class Body, class Ahead>
KOKKOS_INLINE_FUNCTION void loop(Columns columns, const Body& body, const Ahead& ahead) {
  constexpr Index step = 64;
  Index c = columns.begin;
  for (; c + step <= columns.end; c += step) {
    ahead(c, step);
    loop({c, c + step}, body);
  }
  loop({c, columns.end}, body);
}

}  // namespace detail

/// body(c) for every c < n, shared out over the team; iterations are independent. A thread gets the same
/// columns in every call with the same n.
template <class Body>
KOKKOS_INLINE_FUNCTION void for_columns(const TeamMember& team, Index n, const Body& body) {
  if constexpr (rows_on_host)
    detail::loop(detail::own_columns(team, n), body);
  else
    Kokkos::parallel_for(Kokkos::TeamVectorRange(team, n), body);
}
template <class Body, class T>
KOKKOS_INLINE_FUNCTION void for_columns(const TeamMember& team, Index n, const Body& body,
                                        const RowsAhead<T>& ahead) {
  if constexpr (rows_on_host)
    detail::loop(detail::own_columns(team, n), body, ahead);
  else
    for_columns(team, n, body);
}

/// sum of term(c) over c < n, known to the whole team. term may write what belongs to column c.
template <class A, class Term, class Ahead = NothingAhead>
KOKKOS_INLINE_FUNCTION A row_sum(const TeamMember& team, Index n, const Term& term,
                                 [[maybe_unused]] const Ahead& ahead = {}) {
  A sum = A(0);
  if constexpr (rows_on_host) {
    sum = detail::reduce_lanes<detail::row_lanes<A>>(detail::own_columns(team, n), A(0), detail::Plus{}, term,
                                                     ahead);
    team.team_reduce(Kokkos::Sum<A>(sum));
  } else {
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(team, n), [&](Index c, A& partial) { partial += term(c); }, sum);
  }
  return sum;
}

/// Largest term(c) over c < n (at least `lowest`), known to the whole team.
template <class A, class Term>
KOKKOS_INLINE_FUNCTION A row_max(const TeamMember& team, Index n, A lowest, const Term& term) {
  A largest = lowest;
  if constexpr (rows_on_host) {
    largest = detail::reduce_lanes<detail::row_lanes<A>>(detail::own_columns(team, n), lowest,
                                                         detail::Larger{}, term);
    team.team_reduce(Kokkos::Max<A>(largest));
  } else {
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(team, n),
        [&](Index c, A& partial) {
          const A value = term(c);
          if (value > partial) partial = value;
        },
        Kokkos::Max<A>(largest));
    if (largest < lowest) largest = lowest;
  }
  return largest;
}

/// Loops and sums for one thread of the team with its vector lanes: short rows such as one head.
template <class Body>
KOKKOS_INLINE_FUNCTION void for_lanes(const TeamMember& team, Index n, const Body& body) {
  if constexpr (rows_on_host)
    detail::loop({0, n}, body);
  else
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, n), body);
}
template <class A, class Term>
KOKKOS_INLINE_FUNCTION A lane_sum(const TeamMember& team, Index n, const Term& term) {
  A sum = A(0);
  if constexpr (rows_on_host)
    sum = detail::reduce_lanes<detail::head_lanes<A>>({0, n}, A(0), detail::Plus{}, term);
  else
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(team, n), [&](Index c, A& partial) { partial += term(c); }, sum);
  return sum;
}

}  // namespace minisp::math
