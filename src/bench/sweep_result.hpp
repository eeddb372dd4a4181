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
  double step_seconds = 0;       ///< median of the timed steps, slowest rank
  double tokens_per_s = 0;       ///< all ranks
  double exchange_seconds = 0;   ///< a step, mean rank: the exchange around attention
  double exchange_fraction = 0;  ///< of the step
  double mean_step_seconds = 0;  ///< mean of the timed steps, slowest rank: what the phases add up to
  double exchange_own = 0, exchange_wait = 0,
         exchange_wire = 0;                   ///< the exchange's seconds divided, as doc/figure_of_merit.md
  double wait_seconds = 0, wire_seconds = 0;  ///< a step, mean rank, all collectives
  std::vector<double> waited_for, wire_of_rank;  ///< a rank, seconds a step: that all waited for it; its wire
  std::map<std::string, double> phases;          ///< seconds a step, mean rank
  double bytes_on_node = 0;                      ///< all ranks, a step
  double bytes_off_node = 0;                     ///< all ranks, a step
  double memory = 0;                             ///< bytes: high-water mark of the worst rank
  double memory_predicted = 0;                   ///< bytes by the formula, worst rank
  std::vector<double> loss;                      ///< a step, warm-up steps first
  std::optional<double> entropy_rate;            ///< nats: the least loss that any model can reach
  std::optional<std::string> invalid;            ///< the first reason of an INVALID run
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

/// Of one quantity of every rank, its mean over the finished rounds of a case; empty where they do not have
/// it.
std::vector<double> rank_means(const CaseResult& result, std::vector<double> RoundRecord::*quantity);

/// Tables on standard output; lines begin with "CASE:", "WAIT:", "RATIO:", "INVALID:", the last is "VALID:
/// yes|no".
void print_sweep(std::ostream& out, const SweepResult& result);

/// Collective. Writes FOLDER/sweep.h5 (doc/output_format.md), in place of the one that is there.
void write_sweep(const std::string& file, const SweepResult& result);

}  // namespace minisp::bench
