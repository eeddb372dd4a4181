// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What a sweep has found so far: a record a case and round, read from result files, and what they come to.
#pragma once

#include "config/sweep.hpp"
#include "io/result.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace minisp::bench {

/// One case in one round.
struct RoundRecord {
  double step_seconds = 0;               ///< median of the timed steps, slowest rank
  double tokens_per_s = 0;               ///< all ranks
  double exchange_seconds = 0;           ///< a step, mean rank: the exchange around attention
  double exchange_fraction = 0;          ///< of the step
  std::map<std::string, double> phases;  ///< seconds a step, mean rank
  double bytes_on_node = 0;              ///< all ranks, a step
  double bytes_off_node = 0;             ///< all ranks, a step
  double memory = 0;                     ///< bytes: high-water mark of the worst rank
  std::vector<double> loss;              ///< a step, warm-up steps first
  std::optional<std::string> invalid;    ///< the first reason of an INVALID run
  std::map<std::string, std::string> settings;
  Index ranks = 0, nodes = 0;
};

/// Reads the result file of one case and round.
RoundRecord read_round(const std::string& file);

/// Median and spread over rounds.
struct Spread {
  double median = 0, least = 0, most = 0;
  double lower_quartile = 0, upper_quartile = 0;  ///< by linear interpolation
  Index count = 0;
};
/// Of nothing: zeros with count 0.
Spread spread_of(std::vector<double> values);

struct CaseResult {
  const config::SweepCase* definition = nullptr;
  std::map<Index, RoundRecord> rounds;  ///< by number, from 1; those that are finished
};

/// A case against its baseline, round by round, in the rounds that both have.
struct RatioResult {
  std::string name, baseline;
  std::vector<Index> rounds{};
  std::vector<double> step{};  ///< seconds of the baseline over those of the case: above 1 the case is faster
  std::vector<double>
      exchange{};              ///< the same of the exchange; empty where the case or the baseline has none
  double loss_difference = 0;  ///< largest of any step, relative to the baseline's loss
};

struct SweepResult {
  const config::SweepConfig* sweep = nullptr;
  io::Provenance provenance;
  std::vector<CaseResult> cases;  ///< in the order of the sweep

  std::vector<RatioResult> ratios() const;
  /// "case NAME, round 2: REASON" of every INVALID run.
  std::vector<std::string> invalid() const;
};

/// The values of one quantity over the finished rounds of a case.
std::vector<double> values_of(const CaseResult& result, double RoundRecord::*quantity);

/// Table on standard output; lines begin with "CASE:", "RATIO:", "INVALID:", and the last is "VALID: yes|no".
void print_sweep(std::ostream& out, const SweepResult& result);

/// Collective. Writes FOLDER/sweep.h5 (doc/output_format.md), in place of the one that is there.
void write_sweep(const std::string& file, const SweepResult& result);

}  // namespace minisp::bench
