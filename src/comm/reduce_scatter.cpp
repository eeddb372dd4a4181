// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/reduce_scatter.hpp"

#include "comm/measure.hpp"

#include <stdexcept>

namespace minisp::comm {

namespace {

/// sum(i) = or += the elements i of all blocks, which are added up in block order first.
template <class T>
void add_blocks(const Exec& exec, const Vector<const T>& blocks, int ranks, bool add, const Vector<T>& sum) {
  using A = Accumulate<T>;
  const Index block = static_cast<Index>(sum.extent(0));
  Kokkos::parallel_for(
      "minisp::comm::add_blocks", RowPolicy(exec, 0, block), KOKKOS_LAMBDA(const Index i) {
        A total = static_cast<A>(blocks(i));
        for (int rank = 1; rank < ranks; ++rank) total += static_cast<A>(blocks(rank * block + i));
        sum(i) = static_cast<T>(add ? static_cast<A>(sum(i)) + total : total);
      });
}

}  // namespace

template <class T>
void reduce_scatter_sum(const Communicator& communicator, const Exec& exec, const Vector<const T>& data,
                        bool add, const Vector<T>& sum) {
  const int ranks = communicator.size();
  if (data.size() != sum.size() * static_cast<std::size_t>(ranks))
    throw std::invalid_argument("reduce_scatter_sum: the data hold one block a rank");
  const auto bytes = sum.size() * sizeof(T);
  measure(communicator, exec, "reduce_scatter_sum", static_cast<Index>(bytes), [&] {
    if (ranks == 1) return add_blocks<T>(exec, data, ranks, add, sum);
    auto* received = reinterpret_cast<T*>(communicator.workspace(data.size() * sizeof(T)));
    communicator.backend().all_to_all(exec, data.data(), received, bytes);
    add_blocks<T>(exec, Vector<const T>(received, data.size()), ranks, add, sum);
  });
}

template void reduce_scatter_sum(const Communicator&, const Exec&, const Vector<const double>&, bool,
                                 const Vector<double>&);
template void reduce_scatter_sum(const Communicator&, const Exec&, const Vector<const float>&, bool,
                                 const Vector<float>&);
template void reduce_scatter_sum(const Communicator&, const Exec&, const Vector<const bfloat16>&, bool,
                                 const Vector<bfloat16>&);

}  // namespace minisp::comm
