// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/clock.hpp"

#include <chrono>
#include <limits>

namespace minisp::comm {

namespace {

/// Rank 0's side: the clock of `other` was read somewhere between `sent` and `received`; in the middle, at
/// best.
ClockReading read_clock_of(Backend& backend, int other, int rounds, const std::function<double()>& now) {
  ClockReading best{.local = 0, .offset = 0, .error = std::numeric_limits<double>::infinity()};
  for (int round = 0; round < rounds; ++round) {
    double theirs = 0;
    const double sent = now();
    backend.host_send(&sent, sizeof(sent), other);
    backend.host_receive(&theirs, sizeof(theirs), other);
    const double received = now();
    const double error = 0.5 * (received - sent);
    if (error < best.error) best = {.local = theirs, .offset = sent + error - theirs, .error = error};
  }
  return best;
}

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ClockReading compare_clocks(const Communicator& world, int rounds, const std::function<double()>& now) {
  Backend& backend = world.backend();
  if (world.rank() == 0) {
    for (int other = 1; other < world.size(); ++other) {
      const ClockReading reading = read_clock_of(backend, other, rounds, now);
      backend.host_send(&reading, sizeof(reading), other);
    }
    return {.local = now(), .offset = 0, .error = 0};
  }
  for (int round = 0; round < rounds; ++round) {
    double theirs = 0;
    backend.host_receive(&theirs, sizeof(theirs), 0);
    const double mine = now();
    backend.host_send(&mine, sizeof(mine), 0);
  }
  ClockReading reading;
  backend.host_receive(&reading, sizeof(reading), 0);
  return reading;
}

}  // namespace minisp::comm
