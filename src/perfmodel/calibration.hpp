// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// From measured steps and collectives to a machine: least squares with constants that are not negative.
#pragma once

#include "perfmodel/predict.hpp"

#include <map>
#include <string>
#include <vector>

namespace minisp::perfmodel {

/// One measured step, seconds of the mean rank.
struct StepSample {
  std::string name;
  Scenario scenario;
  std::map<std::string, double> own;          ///< by phase: computing, copies, sums
  std::map<std::string, double> collectives;  ///< by phase: waiting and moving bytes
  double step = 0;                            ///< of the slowest rank

  double mean_step() const;
};

/// One call of a collective when all groups make it at once.
struct CollectiveSample {
  Collective collective = Collective::all_to_all;
  Peers peers;
  double bytes_per_peer = 0;
  double seconds = 0;  ///< of the mean rank
  double last = 0;     ///< of the last rank, where that was measured
};

/// Fills machine.all_to_all, all_gather, link_burst_bytes and skew.share_of_wire. Samples count by the amount
/// of their relative error, not its square: sizes at which a library changes its protocol fit no straight
/// line.
void fit_collectives(const std::vector<CollectiveSample>& samples, Machine& machine);

/// Fills machine.compute of `precision`, skew, share.seconds_per_turn (where ranks_per_core is more than 1),
/// exposed_gathers, slowest_over_mean, and ranges; the collectives' constants are given. Phases count by the
/// amount of their relative error, waits by their seconds.
void fit_steps(const std::vector<StepSample>& samples, config::Precision precision, Machine& machine);

/// Adds the scenario's sizes to what machine.ranges covers.
void widen_ranges(const Scenario& scenario, Machine& machine);

/// A line each: measured and predicted seconds of every sample, and the phases' errors over all samples.
std::vector<std::string> residuals(const std::vector<StepSample>& steps,
                                   const std::vector<CollectiveSample>& collectives, const Machine& machine);

}  // namespace minisp::perfmodel
