// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A group of ranks that communicate. The collectives on views stand in files of their own: all_to_all.hpp,
// all_reduce.hpp, all_gather.hpp, broadcast.hpp, scalars.hpp.
#pragma once

#include "comm/backend.hpp"
#include "comm/delayed_backend.hpp"
#include "comm/ledger.hpp"
#include "comm/slow_link_backend.hpp"
#include "comm/topology.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace minisp::comm {

class RecordingBackend;

/// How views that are not in host memory reach MPI. On a host there is nothing to do.
enum class Staging {
  probe,   ///< handed to MPI where it says that it takes device pointers, else by way of host memory
  always,  ///< by way of host memory
};

struct WorldOptions {
  Staging staging = Staging::probe;
  std::optional<Delays> delays =
      {};  ///< injected into every collective of all communicators of this world (for tests)
  std::optional<int> node =
      {};  ///< node of this rank in place of what MPI tells (any number a node; for tests)
};

/// Move-only. Communicators that come from one world by split() share its ledger and topology, and live on
/// without it. Failures of the library throw Error (environment).
class Communicator {
 public:
  /// A world of one rank, without any library: nothing is sent.
  static Communicator self();
  /// All ranks of the job, named "world"; its own copy of MPI_COMM_WORLD. MPI has to be initialised.
  static Communicator world(const WorldOptions& options = {});
  /// Ranks of equal color form a communicator, ordered by (key, rank here). Collective over ALL ranks of this
  /// communicator: nobody may stay away or return early.
  Communicator split(int color, int key, std::string name) const;
  /// The same ranks with one slow link, for runs that show what it does. Collective.
  Communicator with_slow_link(const SlowLink& link) const;

  Communicator(Communicator&&) noexcept = default;
  Communicator& operator=(Communicator&&) noexcept = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(nodes_.size()); }
  const std::string& name() const { return name_; }

  /// Node of each rank of this communicator, numbered as in topology().
  const std::vector<int>& nodes() const { return nodes_; }
  bool on_this_node(int other) const { return nodes_[other] == nodes_[rank()]; }
  const Topology& topology() const { return *topology_; }

  /// Shared by all communicators of one world. A const communicator counts what it sends.
  Ledger& ledger() const { return *ledger_; }
  Backend& backend() const;
  /// In the ledger's list of transfers.
  int number() const;
  /// Scratch memory of collectives, at least `bytes`; grows once and stays. Valid until the next call.
  std::byte* workspace(std::size_t bytes) const;
  /// Frees it; it grows again as it is asked for.
  void release_workspace() const { *workspace_ = {}; }

  /// Enters one call in the ledger that sends `bytes_per_peer` to each other rank and took `seconds`.
  void enter(const char* collective, Index bytes_per_peer, double seconds) const;

 private:
  Communicator(std::shared_ptr<Backend> backend, std::string name, std::shared_ptr<const Topology> topology,
               std::vector<int> nodes, std::shared_ptr<Ledger> ledger);

  std::shared_ptr<RecordingBackend> backend_;
  int rank_;
  std::string name_;
  std::shared_ptr<const Topology> topology_;
  std::vector<int> nodes_;
  std::shared_ptr<Ledger> ledger_;
  int peers_on_node_ = 0;
  std::unique_ptr<Vector<std::byte>> workspace_;
};

/// Returns when all ranks have arrived.
void barrier(const Communicator& communicator);

}  // namespace minisp::comm
