// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "util/phase_timers.hpp"

#include "util/kokkos_compat.hpp"

#include <thread>

namespace minisp {

PhaseTimers::Scope::Scope(PhaseTimers& timers, const char* name) : timers_(timers), outer_(timers.open_) {
  Exec().fence();
  timers_.charge_open_phase();
  timers_.open_ = timers_.find_or_add(name);
  ++timers_.entries_[timers_.open_].calls;
  Kokkos::Profiling::pushRegion(name);
}

PhaseTimers::Scope::~Scope() {
  Exec().fence();
  Kokkos::Profiling::popRegion();
  timers_.charge_open_phase();
  timers_.open_ = outer_;
}

void PhaseTimers::charge_open_phase() {
  auto now = Clock::now();
  if (open_ >= 0) {
    if (drag_) {
      const double seconds = std::chrono::duration<double>(now - since_).count();
      std::this_thread::sleep_for(std::chrono::duration<double>(drag_(entries_[open_].name, seconds)));
      now = Clock::now();
    }
    entries_[open_].seconds += std::chrono::duration<double>(now - since_).count();
  }
  since_ = now;
}

int PhaseTimers::find_or_add(const char* name) {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].name == name) return static_cast<int>(i);
  entries_.push_back({name});
  return static_cast<int>(entries_.size()) - 1;
}

double PhaseTimers::total() const {
  double sum = 0;
  for (const auto& entry : entries_) sum += entry.seconds;
  return sum;
}

void PhaseTimers::reset() {
  for (auto& entry : entries_) entry = {entry.name};
}

}  // namespace minisp
