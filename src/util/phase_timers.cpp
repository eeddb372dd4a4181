// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "util/phase_timers.hpp"

#include "util/kokkos_compat.hpp"

#include <thread>

namespace minisp {

namespace {

double seconds_of(PhaseTimers::Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

PhaseTimers::Scope::Scope(PhaseTimers& timers, const char* name)
    : timers_(timers), outer_(timers.open_), event_(timers.events_.size()) {
  Exec().fence();
  timers_.charge_open_phase();
  timers_.open_ = timers_.find_or_add(name);
  ++timers_.entries_[timers_.open_].calls;
  if (timers_.records_)
    timers_.events_.push_back({timers_.open_, timers_.depth_++, seconds_of(timers_.since_), 0});
  Kokkos::Profiling::pushRegion(name);
}

PhaseTimers::Scope::~Scope() {
  Exec().fence();
  Kokkos::Profiling::popRegion();
  timers_.charge_open_phase();
  timers_.open_ = outer_;
  if (!timers_.records_) return;
  timers_.events_[event_].end = seconds_of(timers_.since_);
  --timers_.depth_;
}

void PhaseTimers::record_events(bool on) {
  if (on) events_.clear();
  records_ = on;
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
