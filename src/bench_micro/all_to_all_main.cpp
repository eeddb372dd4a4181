// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The all-to-all of src/comm/ against MPI_Alltoall called directly with the same bytes, in turn within one
// loop. Started under mpiexec; arguments: bytes a block (one or more), else a range of sizes.
#include "comm/all_to_all.hpp"
#include "comm/environment.hpp"
#include "comm/mpi_call.hpp"
#include "comm/scalars.hpp"

#include <Kokkos_Core.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

namespace minisp {
namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Seconds until the last rank has finished, all having started together.
template <class Work>
double seconds_of(const comm::Communicator& world, const Work& work) {
  comm::barrier(world);
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return comm::maximum(world, elapsed.count());
}

/// The mark that rank `from` puts on the first and the last byte of its block for rank `to`.
KOKKOS_INLINE_FUNCTION std::byte mark(int from, int to) {
  return static_cast<std::byte>(from * 7 + to * 3 + 1);
}

/// Only the ends of the blocks are written, so that messages of many GiB need the memory of one buffer only.
void write_marks(const Vector<std::byte>& send, Index block, int rank, int ranks) {
  Kokkos::parallel_for(
      "minisp::bench::write_marks", RowPolicy(Exec(), 0, ranks), KOKKOS_LAMBDA(Index to) {
        send(to * block) = send((to + 1) * block - 1) = mark(rank, static_cast<int>(to));
      });
}
Index wrong_marks(const Vector<std::byte>& receive, Index block, int rank, int ranks) {
  Index wrong = 0;
  Kokkos::parallel_reduce(
      "minisp::bench::wrong_marks", RowPolicy(Exec(), 0, ranks),
      KOKKOS_LAMBDA(Index from, Index & count) {
        const std::byte expected = mark(static_cast<int>(from), rank);
        count += receive(from * block) != expected || receive((from + 1) * block - 1) != expected;
      },
      wrong);
  return wrong;
}

/// Prints one line.
void compare(const comm::Communicator& world, Index block) {
  const int ranks = world.size();
  const Vector<std::byte> send(uninitialized("minisp::bench::send"), block * ranks);
  const Vector<std::byte> receive(uninitialized("minisp::bench::receive"), block * ranks);
  write_marks(send, block, world.rank(), ranks);
  const comm::MessageType message(static_cast<std::size_t>(block));
  const auto ours = [&] { comm::all_to_all(world, Exec(), send, receive); };
  const auto direct = [&] {
    comm::check_mpi(MPI_Alltoall(send.data(), message.count(), message.type(), receive.data(),
                                 message.count(), message.type(), MPI_COMM_WORLD),
                    "MPI_Alltoall");
  };
  const Index repetitions = std::clamp<Index>((Index{1} << 31) / (block * ranks * ranks), 1, 1000);
  ours();
  const Index wrong = comm::sum(world, wrong_marks(receive, block, world.rank(), ranks));
  direct();
  std::vector<double> times_ours, times_direct;
  for (Index i = 0; i < repetitions; ++i) {
    // Whoever comes second may find the caches warmer: take turns.
    if (i % 2 == 0) times_ours.push_back(seconds_of(world, ours));
    times_direct.push_back(seconds_of(world, direct));
    if (i % 2 != 0) times_ours.push_back(seconds_of(world, ours));
  }
  const double a = median(times_ours), b = median(times_direct);
  if (world.rank() == 0)
    fmt::print(
        "{:12} bytes a block  {:5} times  ours {:12.2f} us  MPI_Alltoall {:12.2f} us  ratio {:.3f}  {}\n",
        block, repetitions, a * 1e6, b * 1e6, a / b, wrong == 0 ? "right" : "WRONG");
  if (wrong != 0) comm::abort_job(1);
}

}  // namespace
}  // namespace minisp

int main(int argc, char** argv) {
  minisp::comm::Environment environment(argc, argv);
  const Kokkos::ScopeGuard kokkos(argc, argv);
  const auto world = minisp::comm::Communicator::world();
  std::vector<minisp::Index> blocks;
  for (int i = 1; i < argc; ++i) blocks.push_back(std::atoll(argv[i]));
  if (blocks.empty()) blocks = {64, 1024, 16384, 262144, 1048576, 4194304};
  for (const auto block : blocks) {
    if (block < 1) minisp::comm::abort_job(2);
    minisp::compare(world, block);
  }
  return 0;
}
