// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/arrivals.hpp"

#include "comm/all_reduce.hpp"
#include "comm/scalars.hpp"

namespace minisp::bench {

void Arrivals::start(const comm::Communicator& world, Index calls) {
  first_ = comm::compare_clocks(world);
  world.ledger().record_transfers(static_cast<std::size_t>(calls));
}

void Arrivals::stop(const comm::Communicator& world) {
  world.ledger().stop_recording();
  clock_ = comm::CommonClock(first_, comm::compare_clocks(world));
}

comm::Waiting Arrivals::divide(const parallel::Mesh& mesh, const comm::Ledger& ledger) const {
  comm::Waiting waiting;
  for (const auto* communicator : {&mesh.world(), &mesh.sequence(), &mesh.shard(), &mesh.replicas()})
    comm::add_waiting(*communicator, ledger, clock_, mesh.rank(), mesh.world().size(), waiting);
  return waiting;
}

io::ArrivalRecord Arrivals::gather(const comm::Communicator& world, const comm::Waiting& waiting) const {
  io::ArrivalRecord record;
  record.clock_offset = comm::gather_scalar(world, clock_.offset());
  record.clock_drift = comm::gather_scalar(world, clock_.drift());
  record.clock_error = comm::gather_scalar(world, clock_.error());
  const Vector<double> sums("minisp::bench::waited_for", world.size());
  const auto host = Kokkos::create_mirror_view(sums);
  for (std::size_t rank = 0; rank < host.size(); ++rank) host(rank) = waiting.waited_for[rank];
  Kokkos::deep_copy(sums, host);
  comm::all_reduce_sum(world, Exec(), sums);
  Kokkos::deep_copy(host, sums);
  record.waited_for.assign(host.data(), host.data() + host.size());
  return record;
}

}  // namespace minisp::bench
