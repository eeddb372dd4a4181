// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What one rank did in one step, on the common clock: phases, and collectives with their waiting.
#pragma once

#include "comm/waiting.hpp"
#include "parallel/mesh.hpp"
#include "util/phase_timers.hpp"

#include <string>
#include <vector>

namespace minisp::bench {

/// Seconds of rank 0's clock.
struct Interval {
  double begin = 0, end = 0;
  double seconds() const { return end - begin; }
};

struct TracedPhase : Interval {
  std::string name;
  int depth = 0;  ///< 0: in no other phase
};

/// A stretch in the library, in a call or waiting for what a call started.
struct TracedTransfer : Interval {
  Interval later;           ///< in Request::wait(), where the call only started it; else empty
  double last_arrival = 0;  ///< of the communicator's ranks
  int last_rank = 0;        ///< of the world

  bool started() const { return later.seconds() > 0; }
};

struct TracedCall : Interval {
  std::string collective, phase, communicator;
  int ranks = 1;             ///< of the communicator
  Index bytes_per_peer = 0;  ///< sent to each other rank
  Index bytes_on_node = 0, bytes_off_node = 0;
  std::vector<TracedTransfer> transfers;
};

struct StepTrace : Interval {
  Index step = 0;
  std::vector<TracedPhase> phases;  ///< in the order in which they began
  std::vector<TracedCall> calls;    ///< in the order in which they began
};

/// Records a step: start() before it, stop() after it, take() when the clocks are known. Nothing but memory
/// of its own is touched in between.
class StepRecorder {
 public:
  void start(const comm::Communicator& world, PhaseTimers& timers, Index step);
  void stop(const comm::Communicator& world, PhaseTimers& timers);
  /// Collective. `ledger` and `timers` as they were left by stop().
  StepTrace take(const parallel::Mesh& mesh, const comm::Ledger& ledger, const PhaseTimers& timers,
                 const comm::CommonClock& clock) const;

 private:
  Interval step_;
  Index number_ = 0;
};

}  // namespace minisp::bench
