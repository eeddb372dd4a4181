// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The timed steps' collectives divided into own work, waiting for the last rank, and moving bytes. Nothing is
// sent for it during the steps: every rank notes when it came and went, and the notes are exchanged
// afterwards.
#pragma once

#include "comm/waiting.hpp"
#include "io/result.hpp"
#include "parallel/mesh.hpp"

namespace minisp::bench {

class Arrivals {
 public:
  /// Before the timed steps: compares the clocks and has the ledger remember transfers, with room for `calls`
  /// of them. Collective.
  void start(const comm::Communicator& world, Index calls);
  /// After them. Collective.
  void stop(const comm::Communicator& world);

  const comm::CommonClock& clock() const { return clock_; }

  /// The division of the steps' ledger. Collective.
  comm::Waiting divide(const parallel::Mesh& mesh, const comm::Ledger& ledger) const;
  /// Clocks, and who was waited for, of all ranks. Collective.
  io::ArrivalRecord gather(const comm::Communicator& world, const comm::Waiting& waiting) const;

 private:
  comm::ClockReading first_;
  comm::CommonClock clock_;
};

}  // namespace minisp::bench
