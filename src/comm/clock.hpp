// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// One clock for all ranks. Every host has its own; rank 0's is the common one, and every rank knows how far
// its own is off, by the round trip of a message (Cristian 1989; taken twice, which bounds the drift, as
// Hunold and Carpen-Amarie 2016 do).
#pragma once

#include "comm/communicator.hpp"

#include <functional>

namespace minisp::comm {

/// Seconds on this host's monotonic clock, from an arbitrary start.
double steady_seconds();

/// What one comparison with rank 0's clock gave.
struct ClockReading {
  double local = 0;   ///< when, on this rank's clock
  double offset = 0;  ///< rank 0's clock less this one's
  double error = 0;   ///< offset is right within this: half of the shortest round trip; 0 on rank 0
};

/// Collective over `world`: rank 0 exchanges `rounds` messages with one rank after the other and keeps, of
/// each, the fastest. Nothing is entered in the ledger. `now` stands for this rank's clock (another one for
/// tests).
ClockReading compare_clocks(const Communicator& world, int rounds = 32,
                            const std::function<double()>& now = steady_seconds);

/// This rank's clock turned into rank 0's between two readings: the offset drifts evenly.
class CommonClock {
 public:
  CommonClock() = default;
  CommonClock(const ClockReading& first, const ClockReading& last) : first_(first), last_(last) {}

  double operator()(double local) const {
    const double span = last_.local - first_.local;
    return local + first_.offset + (span > 0 ? (local - first_.local) / span * drift() : 0);
  }
  double offset() const { return first_.offset; }
  /// Seconds that the offset changed by from the first reading to the last.
  double drift() const { return last_.offset - first_.offset; }
  /// Bound on what is left between this clock and rank 0's at the readings.
  double error() const { return first_.error > last_.error ? first_.error : last_.error; }

 private:
  ClockReading first_, last_;
};

}  // namespace minisp::comm
