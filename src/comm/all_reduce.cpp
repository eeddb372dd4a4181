// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/all_reduce.hpp"

#include "comm/measure.hpp"

#include <algorithm>
#include <stdexcept>

namespace minisp::comm {

namespace {

constexpr std::size_t piece_bytes = std::size_t{32} << 20;  // of the workspace, whatever is reduced

/// Elements of a full piece: a multiple of the number of ranks.
Index piece_elements(std::size_t element_bytes, int ranks) {
  const Index chunk = static_cast<Index>(piece_bytes / element_bytes) / ranks;
  return std::max<Index>(chunk, 1) * ranks;
}

Index rounded_up(Index n, int ranks) {
  return (n + ranks - 1) / ranks * ranks;
}

}  // namespace

/// blocks(i) = sum of blocks(rank*chunk + i) over ranks, from rank 0 on, for i < chunk.
template <class T>
void sum_blocks(const Exec& exec, const Vector<T>& blocks, Index chunk, int ranks) {
  using A = Accumulate<T>;
  Kokkos::parallel_for(
      "minisp::comm::sum_blocks", RowPolicy(exec, 0, chunk), KOKKOS_LAMBDA(Index i) {
        A sum = static_cast<A>(blocks(i));
        for (int rank = 1; rank < ranks; ++rank) sum += static_cast<A>(blocks(rank * chunk + i));
        blocks(i) = static_cast<T>(sum);
      });
}

/// One piece, whose length is a multiple of the number of ranks; `received` has room for all of it.
template <class T>
void reduce_piece(Backend& backend, const Exec& exec, T* data, Index elements, T* received) {
  const int ranks = backend.size();
  const Index chunk = elements / ranks;
  const std::size_t bytes = static_cast<std::size_t>(chunk) * sizeof(T);
  backend.all_to_all(exec, data, received, bytes);
  sum_blocks(exec, Vector<T>(received, elements), chunk, ranks);
  exec.fence();
  backend.all_gather(exec, received, data, bytes);
}

template <class T>
void all_reduce_sum(const Communicator& communicator, const Exec& exec, const Vector<T>& data) {
  const int ranks = communicator.size();
  const auto n = static_cast<Index>(data.size());
  const Index bytes_per_peer = 2 * rounded_up(n, ranks) / ranks * static_cast<Index>(sizeof(T));
  measure(communicator, exec, "all_reduce_sum", bytes_per_peer, [&] {
    if (ranks == 1 || n == 0) return;
    auto* workspace =
        reinterpret_cast<T*>(communicator.workspace(all_reduce_workspace_bytes(n, sizeof(T), ranks)));
    const Index whole = n / ranks * ranks;
    const Index piece = piece_elements(sizeof(T), ranks);
    for (Index begin = 0; begin < whole; begin += piece)
      reduce_piece(communicator.backend(), exec, data.data() + begin, std::min(piece, whole - begin),
                   workspace);
    if (whole == n) return;
    // The last elements, fewer than ranks, padded to one a rank.
    const auto rest = Kokkos::subview(data, Kokkos::make_pair(whole, n));
    const Vector<T> padded(workspace, ranks);
    const auto used = Kokkos::subview(padded, Kokkos::make_pair(Index{0}, n - whole));
    Kokkos::deep_copy(exec, padded, T(0));
    Kokkos::deep_copy(exec, used, rest);
    exec.fence();
    reduce_piece(communicator.backend(), exec, padded.data(), ranks, workspace + ranks);
    Kokkos::deep_copy(exec, rest, used);
  });
}

std::size_t all_reduce_workspace_bytes(Index n, std::size_t element_bytes, int ranks) {
  if (ranks == 1 || n == 0) return 0;
  const Index whole = std::min(n / ranks * ranks, piece_elements(element_bytes, ranks));
  const Index rest = n % ranks != 0 ? 2 * ranks : 0;
  return static_cast<std::size_t>(std::max(whole, rest)) * element_bytes;
}

template void all_reduce_sum(const Communicator&, const Exec&, const Vector<double>&);
template void all_reduce_sum(const Communicator&, const Exec&, const Vector<float>&);
template void all_reduce_sum(const Communicator&, const Exec&, const Vector<bfloat16>&);
template void all_reduce_sum(const Communicator&, const Exec&, const Vector<int>&);
template void all_reduce_sum(const Communicator&, const Exec&, const Vector<Index>&);

}  // namespace minisp::comm
