// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Exclusive phase times of a step: a phase that opens inside another one stops the outer clock, so the
// phases of a step add up to the step less what no phase covers.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace minisp {

class PhaseTimers {
 public:
  using Clock = std::chrono::steady_clock;

  struct Entry {
    std::string name;
    double seconds = 0;  ///< exclusive, summed over calls
    long calls = 0;
  };

  /// One call of a phase, in seconds of Clock.
  struct Event {
    int entry = 0;  ///< of entries()
    int depth = 0;  ///< phases that were open around it
    double begin = 0, end = 0;
  };

  /// Opens phase `name` for the lifetime of the returned scope; also a Kokkos profiling region of that
  /// name. Fences the default execution space at both ends, so that asynchronous kernels are counted where
  /// they were started.
  class Scope {
   public:
    Scope(PhaseTimers& timers, const char* name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseTimers& timers_;
    int outer_;
    std::size_t event_;
  };
  [[nodiscard]] Scope phase(const char* name) { return Scope(*this, name); }

  /// Phases in the order in which they were first opened.
  const std::vector<Entry>& entries() const { return entries_; }
  /// A rank that is slow on purpose: after each stretch of a phase it sleeps drag(phase, seconds of the
  /// stretch) seconds, which count as the phase's.
  using Drag = std::function<double(const std::string& phase, double seconds)>;
  void set_drag(Drag drag) { drag_ = std::move(drag); }

  /// Remembers the calls of phases that begin from now on, and forgets earlier ones; or no longer. Not within
  /// a phase.
  void record_events(bool on);
  /// In the order in which they began.
  const std::vector<Event>& events() const { return events_; }

  /// Sum over the phases.
  double total() const;
  /// Sets every time and count to zero and keeps the names.
  void reset();

 private:
  void charge_open_phase();
  int find_or_add(const char* name);

  std::vector<Entry> entries_;
  int open_ = -1;  // index of the innermost open phase
  Clock::time_point since_{};
  Drag drag_;
  bool records_ = false;
  int depth_ = 0;
  std::vector<Event> events_;
};

}  // namespace minisp
