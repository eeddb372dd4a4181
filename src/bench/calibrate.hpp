// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What `minisp calibrate` measures.
#pragma once

#include "bench/commands.hpp"
#include "perfmodel/calibration.hpp"

#include <vector>

namespace minisp::bench {

/// A deck of a few thousand parameters whose step is measured.
struct Probe {
  std::string name;
  config::Config config;
};

/// Decks for this many ranks: data parallel in several shapes, then the exchanges, then sharded weights.
std::vector<Probe> probes(int ranks, config::Precision precision, bool quick);

/// The probes' steps, medians of `rounds` rounds. Every round measures all of them in turn, so that none of
/// them alone gets what else the machine does at a time. Collective.
std::vector<perfmodel::StepSample> measure_steps(const comm::Communicator& world,
                                                 const std::vector<Probe>& probes,
                                                 const perfmodel::Placement& placement, Index rounds);

/// All-to-alls and all-gathers of groups on a node, across nodes and of all ranks, all groups at once.
/// Collective.
std::vector<perfmodel::CollectiveSample> measure_collectives(const comm::Communicator& world,
                                                             const perfmodel::Placement& placement,
                                                             bool quick);

}  // namespace minisp::bench
