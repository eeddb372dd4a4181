// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A run in words, before it starts: model, plan, memory.
#pragma once

#include "config/config.hpp"
#include "parallel/plan.hpp"
#include "train/trainer.hpp"

#include <string>

namespace minisp::bench {

/// "basp: 8 ranks, 2 groups of 4 ranks, 1 sequence a group, 512 tokens a rank".
std::string describe(const parallel::Plan& plan);
std::string describe(const config::Config& config);
/// Several lines, one a kind of memory, with the total.
std::string describe(const train::MemoryPrediction& memory);

/// "1.23 GiB".
std::string bytes_text(double bytes);

}  // namespace minisp::bench
