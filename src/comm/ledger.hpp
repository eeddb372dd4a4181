// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What was sent, counted where it is sent. A run whose counted bytes differ from the closed formula of its
// decomposition (parallel/volume.hpp) is void: it did not do the communication that it claims.
#pragma once

#include "util/views.hpp"

#include <string>
#include <vector>

namespace minisp::comm {

/// One line: all calls of one collective in one phase over one communicator. Bytes are those that the
/// collective's definition makes this rank send to other ranks (what it keeps for itself does not count).
struct LedgerEntry {
  std::string
      collective;     ///< "all_to_all", "all_reduce_sum", "all_gather", "broadcast", "scalars", "barrier"
  std::string phase;  ///< the label in force, see Ledger::phase
  std::string communicator;  ///< "world", "sequence", ...
  Index calls = 0;
  Index bytes_on_node = 0;   ///< to ranks on this node
  Index bytes_off_node = 0;  ///< to ranks on other nodes
  int peers_on_node = 0;     ///< other ranks of the communicator on this node
  int peers_off_node = 0;
  double seconds = 0;  ///< in the collective on this rank, waiting for late ranks included
};

class Ledger {
 public:
  /// Labels what is entered during the lifetime of the returned scope; scopes nest, the innermost counts.
  class Scope {
   public:
    Scope(Ledger& ledger, std::string label);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Ledger& ledger_;
    std::string outer_;
  };
  [[nodiscard]] Scope phase(std::string label) { return Scope(*this, std::move(label)); }

  /// Adds one call (or its numbers) to the line of call.collective and call.communicator in the phase in
  /// force.
  void enter(const LedgerEntry& call);

  /// In the order in which the lines were first entered.
  const std::vector<LedgerEntry>& entries() const { return entries_; }
  void reset() { entries_.clear(); }

 private:
  std::vector<LedgerEntry> entries_;
  std::string phase_;
};

}  // namespace minisp::comm
