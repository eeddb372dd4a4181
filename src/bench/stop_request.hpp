// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Whether a run is asked to end early: by SIGTERM, by SIGUSR1 (Slurm: --signal=USR1@120), or by its time
// limit.
#pragma once

#include "comm/communicator.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace minisp::bench {

/// Seconds in "SECONDS" or "HH:MM:SS". Throws Error (bad_input).
double parse_time_limit(const std::string& text);

/// Catches both signals as long as it lives; one in a process.
class StopRequest {
 public:
  using Clock = std::chrono::steady_clock;

  /// `limit` in seconds from `start` on.
  StopRequest(Clock::time_point start, std::optional<double> limit);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// Why to stop ("SIGUSR1", "the time limit"); empty: go on. Collective and the same on every rank, though a
  /// signal may have reached one alone: one scalar in the ledger (comm/scalars.hpp), labelled stop_phase.
  std::string agree(const comm::Communicator& world) const;

 private:
  std::optional<Clock::time_point> end_;
};

inline constexpr const char* stop_phase = "stop request";

}  // namespace minisp::bench
