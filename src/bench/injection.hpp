// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A slow rank and a slow link, put in by the deck to see how the report shows them.
#pragma once

#include "comm/slow_link_backend.hpp"
#include "config/config.hpp"
#include "util/phase_timers.hpp"

#include <string>

namespace minisp::bench {

/// One line for the report and the provenance; empty where nothing is injected.
std::string describe(const config::InjectConfig& inject);

/// Error (bad_input) where a rank is named that does not exist.
void check_injection(const config::InjectConfig& inject, int ranks);

/// What the timers of `rank` do; empty for ranks that are not slow. Phases that communicate are left alone: a
/// slow processor does not wait longer for others.
PhaseTimers::Drag drag_of(const config::InjectConfig& inject, int rank);

inline comm::SlowLink slow_link_of(const config::InjectConfig& inject) {
  return {static_cast<int>(inject.link_rank), inject.link_seconds};
}

}  // namespace minisp::bench
