// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/communicator.hpp"

#include "comm/environment.hpp"
#include "comm/measure.hpp"
#include "comm/mpi_backend.hpp"
#include "comm/mpi_call.hpp"
#include "comm/recording_backend.hpp"
#include "comm/self_backend.hpp"

#include <algorithm>
#include <utility>

namespace minisp::comm {

namespace {

std::vector<int> gather_ints(Backend& backend, int value) {
  std::vector<int> all(static_cast<std::size_t>(backend.size()));
  backend.host_all_gather(&value, all.data(), sizeof(int));
  return all;
}

/// A number that the ranks of this node have in common and no others: the lowest world rank on it.
int lowest_rank_here(MPI_Comm world, int rank) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  int lowest = rank;
  check_mpi(MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  return lowest;
}

std::shared_ptr<const Topology> make_topology(Backend& backend, int node_mark) {
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  check_mpi(MPI_Get_processor_name(host, &length), "MPI_Get_processor_name");
  std::vector<char> hosts(static_cast<std::size_t>(backend.size()) * sizeof(host));
  backend.host_all_gather(host, hosts.data(), sizeof(host));

  auto topology = std::make_shared<Topology>();
  std::vector<int> marks;  // of the nodes met so far
  const auto mark_of_rank = gather_ints(backend, node_mark);
  for (std::size_t rank = 0; rank < mark_of_rank.size(); ++rank) {
    const auto found = std::find(marks.begin(), marks.end(), mark_of_rank[rank]);
    topology->node_of_world_rank.push_back(static_cast<int>(found - marks.begin()));
    if (found != marks.end()) continue;
    marks.push_back(mark_of_rank[rank]);
    topology->host_of_node.emplace_back(hosts.data() + rank * sizeof(host));
  }
  return topology;
}

}  // namespace

Communicator::Communicator(std::shared_ptr<Backend> backend, std::string name,
                           std::shared_ptr<const Topology> topology, std::vector<int> nodes,
                           std::shared_ptr<Ledger> ledger)
    : backend_(std::make_shared<RecordingBackend>(std::move(backend), ledger)),
      rank_(backend_->rank()),
      name_(std::move(name)),
      topology_(std::move(topology)),
      nodes_(std::move(nodes)),
      ledger_(std::move(ledger)),
      workspace_(std::make_unique<Vector<std::byte>>()) {
  for (int other = 0; other < size(); ++other)
    if (other != rank() && on_this_node(other)) ++peers_on_node_;
  backend_->set_nodes(nodes_);
}

Communicator Communicator::self() {
  auto topology = std::make_shared<Topology>(Topology{{0}, {"this host"}});
  return Communicator(std::make_shared<SelfBackend>(), "world", std::move(topology), {0},
                      std::make_shared<Ledger>());
}

Communicator Communicator::world(const WorldOptions& options) {
  constexpr bool host_memory = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;
  const bool staged = options.staging == Staging::always || (!host_memory && !mpi_takes_device_memory());
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  std::shared_ptr<Backend> backend = std::make_shared<MpiBackend>(copy, staged);
  if (options.delays) backend = std::make_shared<DelayedBackend>(std::move(backend), *options.delays);
  const int mark = options.node ? *options.node : lowest_rank_here(copy, backend->rank());
  auto topology = make_topology(*backend, mark);
  auto nodes = topology->node_of_world_rank;
  return Communicator(std::move(backend), "world", std::move(topology), std::move(nodes),
                      std::make_shared<Ledger>());
}

Communicator Communicator::split(int color, int key, std::string name) const {
  auto part = backend_->split(color, key);
  auto nodes = gather_ints(*part, nodes_[rank()]);
  return Communicator(std::move(part), std::move(name), topology_, std::move(nodes), ledger_);
}

Communicator Communicator::with_slow_link(const SlowLink& link) const {
  return Communicator(std::make_shared<SlowLinkBackend>(backend_->inner(), link, rank()), name_, topology_,
                      nodes_, ledger_);
}

Backend& Communicator::backend() const {
  return *backend_;
}

int Communicator::number() const {
  return backend_->communicator();
}

std::byte* Communicator::workspace(std::size_t bytes) const {
  if (workspace_->size() < bytes) {
    *workspace_ = {};  // both at once would count as a peak that no step has
    *workspace_ = Vector<std::byte>(uninitialized("minisp::comm::workspace"), static_cast<Index>(bytes));
  }
  return workspace_->data();
}

void Communicator::enter(const char* collective, Index bytes_per_peer, double seconds) const {
  const int off_node = size() - 1 - peers_on_node_;
  ledger_->enter({.collective = collective,
                  .phase = {},
                  .communicator = name_,
                  .calls = 1,
                  .bytes_on_node = bytes_per_peer * peers_on_node_,
                  .bytes_off_node = bytes_per_peer * off_node,
                  .peers_on_node = peers_on_node_,
                  .peers_off_node = off_node,
                  .seconds = seconds});
}

void barrier(const Communicator& communicator) {
  measure(communicator, Exec(), "barrier", 0, [&] { communicator.backend().barrier(); });
}

}  // namespace minisp::comm
