// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// One run from its configuration to its result file, for the commands that are made of runs.
#pragma once

#include "bench/commands.hpp"
#include "bench/stop_request.hpp"
#include "config/config.hpp"
#include "parallel/plan.hpp"

namespace minisp::bench {

/// The plan of a configuration on so many ranks. Throws Error (bad_input) where it does not fit.
parallel::Plan plan_of(const config::Config& config, int ranks);

/// Collective. From the checks before a run to its verdict and result file, or up to where a dry run stops;
/// deck and overrides of `options` are not looked at. `run_start` is where the time limit counts
/// from. Returns valid, invalid or, with checkpoints, stopped.
ExitCode run_config(const comm::Communicator& world, const config::Config& config, const parallel::Plan& plan,
                    const RunOptions& options,
                    StopRequest::Clock::time_point run_start = StopRequest::Clock::now());

}  // namespace minisp::bench
