// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What was sent, counted where it is sent. A run whose counted bytes differ from the closed formula of its
// decomposition (parallel/volume.hpp) is void: it did not do the communication that it claims.
#pragma once

#include "comm/transfer.hpp"
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
  double seconds = 0;  ///< that this rank was kept: in the call and, where it was only started, in the wait
  double transfer_seconds =
      0;  ///< of these in the library, waiting for late ranks and moving bytes; else own work
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

  /// A call under way, to whose line transfers are counted during its lifetime.
  class Call {
   public:
    Call(Ledger& ledger, int line);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Ledger& ledger_;
    int outer_;
  };
  /// What the collective of the line in force took from `begin` to `end`; remembered where record_calls()
  /// says so.
  void add_call(double begin, double end, Index bytes_per_peer);

  /// Opens the line of these names in the phase in force.
  [[nodiscard]] Call open(const std::string& collective, const std::string& communicator) {
    return Call(*this, line_of(collective, communicator));
  }

  /// Adds one call (or its numbers) to the line of call.collective and call.communicator in the phase in
  /// force.
  void enter(const LedgerEntry& call);

  /// In the order in which the lines were first entered.
  const std::vector<LedgerEntry>& entries() const { return entries_; }
  /// Forgets lines and transfers.
  void reset();

  // ---- transfers, as RecordingBackend reports them

  /// A number for a communicator to come.
  int add_communicator();
  /// Remembers transfers from now on, with room for `expected` of each communicator; or no longer.
  void record_transfers(std::size_t expected);
  void stop_recording() { recording_ = false; }
  /// Remembers calls that begin from now on, and forgets earlier ones; or no longer.
  void record_calls(bool on);
  /// In the order in which they began.
  const std::vector<CallRecord>& calls() const { return calls_; }

  /// A transfer of the call under way, for what is waited for later. Outside of calls nothing is counted.
  struct Mark {
    long generation = -1;
    int line = -1, communicator = -1;
    std::size_t transfer = most_transfers;  ///< most_transfers: not remembered
  };
  Mark add_transfer(int communicator, bool holds_others, double begin, double end);
  /// The wait for a started transfer; ignored after a reset.
  void add_wait(const Mark& mark, double begin, double end);

  /// Of one communicator, in the order of the calls, which is the same on all its ranks.
  const std::vector<Transfer>& transfers(int communicator) const {
    return transfers_[static_cast<std::size_t>(communicator)];
  }

 private:
  int line_of(const std::string& collective, const std::string& communicator);

  std::vector<LedgerEntry> entries_;
  std::string phase_;
  int open_line_ = -1;
  long generation_ = 0;
  bool recording_ = false, recording_calls_ = false;
  std::size_t expected_ = 0;
  std::vector<std::vector<Transfer>> transfers_;  // of each communicator
  std::vector<CallRecord> calls_;
};

}  // namespace minisp::comm
