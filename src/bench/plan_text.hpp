// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Parts of reports in words: model, plan, memory, extremes over ranks.
#pragma once

#include "config/config.hpp"
#include "parallel/plan.hpp"
#include "train/trainer.hpp"

#include <string>
#include <vector>

namespace minisp::bench {

/// "basp: 8 ranks, 2 groups of 4 ranks, 1 sequence a group, 512 tokens a rank".
std::string describe(const parallel::Plan& plan);
std::string describe(const config::Config& config);
/// Several lines, one a kind of memory, with the total.
std::string describe(const train::MemoryPrediction& memory);

/// "1.23 GiB".
std::string bytes_text(double bytes);

/// Seconds of every rank (one at least) in percent of `whole`: "2.1 % (rank 3) to 38.0 % (rank 0)".
std::string extremes_text(const std::vector<double>& of_ranks, double whole);

}  // namespace minisp::bench
