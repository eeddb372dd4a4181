// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Seconds of a step by phase: the work of a rank (work.hpp) at the rates of a machine (machine.hpp), its
// collectives by who sits beside whom (peers.hpp). Equations in doc/performance_model.md.
#pragma once

#include "perfmodel/collectives.hpp"
#include "perfmodel/machine.hpp"
#include "perfmodel/peers.hpp"
#include "perfmodel/work.hpp"

#include <array>
#include <string>
#include <vector>

namespace minisp::perfmodel {

/// Groups that have the same to do.
struct GroupClass {
  GroupLoad load;
  double groups = 0;
};

struct Scenario {
  config::Config config;
  Decomposition decomposition;
  Placement placement;
  std::vector<GroupClass> groups;  ///< N / K of them in all
};

/// The scenario of the deck's own sequences, all of train.sequence_length.
Scenario equal_lengths(const config::Config& config, const Decomposition& decomposition,
                       const Placement& placement);

/// Sequences of one length, in the order of the batch.
struct LengthRun {
  double length = 0;
  Index sequences = 0;
};
/// The same with sequences of these lengths, dealt out to the groups in their order. Their number is that of
/// train.batch, else Error (bad_input). Groups are counted, not listed: work and memory grow with the runs.
Scenario unequal_lengths(const config::Config& config, const Decomposition& decomposition,
                         const Placement& placement, const std::vector<LengthRun>& runs,
                         const std::string& where);

/// Seconds a step of the mean rank.
struct PhaseSeconds {
  std::string name;
  double own = 0;   ///< computing, copies and sums
  double wait = 0;  ///< for the last rank to arrive at a collective
  double wire = 0;  ///< moving bytes

  double total() const { return own + wait + wire; }
};

struct Prediction {
  std::vector<PhaseSeconds> phases;  ///< in the order in which a run opens them
  double step = 0;                   ///< of the slowest rank
  double all_to_all = 0;             ///< exchange phases together
  std::vector<std::string> notes;    ///< quantities outside the machine's ranges, a sentence each

  /// Seconds of a phase, 0 where there is none of that name.
  double seconds(const std::string& phase) const;
};

/// What a scenario has to do, worked out once for predictions on several machines.
class Prepared {
 public:
  explicit Prepared(Scenario scenario);

  /// Throws Error (bad_input) where the machine has no rates of the deck's precision.
  Prediction on(const Machine& machine) const;

 private:
  Scenario scenario_;
  std::array<Peers, 4> scopes_;             // by Scope
  std::vector<std::vector<Event>> events_;  // of scenario_.groups
};

inline Prediction predict(const Machine& machine, const Scenario& scenario) {
  return Prepared(scenario).on(machine);
}

/// Seconds of some work.
double work_seconds(const PhaseRates& rates, const Work& work);

}  // namespace minisp::perfmodel
