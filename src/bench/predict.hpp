// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A deck under the performance model.
#pragma once

#include "parallel/plan.hpp"
#include "perfmodel/predict.hpp"

#include <iosfwd>
#include <string>
#include <vector>

namespace minisp::bench {

/// A deck, and where it is to run.
struct PredictCase {
  std::string name;
  config::Config config;
  perfmodel::Placement placement;
  std::vector<perfmodel::LengthRun> lengths;  ///< empty: all of train.sequence_length
  std::string lengths_file;
};

/// The scenario of a plan of which the first group is enough.
perfmodel::Scenario scenario_of(const PredictCase& one, const parallel::Plan& plan);

/// Bytes of a rank by the formula of doc/algorithms.md.
double memory_of(const config::Config& config, const parallel::Plan& plan);

/// Prints every decomposition that fits the deck: systems and sequence degrees, shardings, mappings; those
/// that fit the machine's memory first, fastest first.
void print_plans(std::ostream& out, const perfmodel::Machine& machine, const PredictCase& one);

}  // namespace minisp::bench
