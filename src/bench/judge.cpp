// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace minisp::bench {

namespace {

// Time that no phase covers means that the table of phases does not explain the step.
constexpr double unattributed_limit = 0.02;
// The formula that a user plans with has to be right to this share, or to this many bytes: small models hold
// counters and tables that no formula is worth having for.
constexpr double memory_limit = 0.10;
constexpr double memory_slack = 1 << 20;

Index non_finite_losses(const io::StepMetrics& metrics) {
  const auto finite = [](double value) { return std::isfinite(value); };
  return static_cast<Index>(metrics.loss.size()) -
         std::min(std::count_if(metrics.loss.begin(), metrics.loss.end(), finite),
                  std::count_if(metrics.grad_norm.begin(), metrics.grad_norm.end(), finite));
}

double memory_error(const io::MemoryRecord& memory) {
  double worst = 0;
  for (std::size_t rank = 0; rank < memory.measured.size(); ++rank) {
    const double predicted = static_cast<double>(memory.predicted[rank]);
    const double off = std::abs(static_cast<double>(memory.measured[rank]) - predicted);
    if (off > memory_slack) worst = std::max(worst, off / predicted);
  }
  return worst;
}

}  // namespace

io::Verdict judge(const Evidence& evidence, const io::RunResult& result) {
  io::Verdict verdict;
  verdict.checks = evidence.self_check;
  const auto check = [&](const char* name, double value, double limit) {
    verdict.checks.push_back({name, value, limit, value <= limit});  // false for NaN
  };
  check("lines of traffic off the formula", static_cast<double>(evidence.traffic_differences.size()), 0);
  check("steps whose loss or gradient is not finite", static_cast<double>(non_finite_losses(result.metrics)),
        0);
  check("ranks with other weights after training", static_cast<double>(evidence.ranks_with_other_weights), 0);
  check("share of the step in no phase", evidence.unattributed_fraction, unattributed_limit);
  check("memory a rank off the formula", memory_error(result.memory), memory_limit);
  if (!result.provenance.injected.empty()) check("delays injected by the deck", 1, 0);
  check("bytes that memory grew by", static_cast<double>(evidence.memory_growth), 0);
  verdict.valid = true;
  for (const auto& row : verdict.checks) {
    if (row.passed) continue;
    verdict.valid = false;
    verdict.reasons.push_back(fmt::format("{}: {:.3g}, at most {:.3g}", row.name, row.value, row.limit));
  }
  verdict.reasons.insert(verdict.reasons.end(), evidence.traffic_differences.begin(),
                         evidence.traffic_differences.end());
  return verdict;
}

}  // namespace minisp::bench
