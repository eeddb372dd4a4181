// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/step_trace.hpp"

#include <map>

namespace minisp::bench {

void StepRecorder::start(const comm::Communicator& world, PhaseTimers& timers, Index step) {
  number_ = step;
  timers.record_events(true);
  world.ledger().record_calls(true);
  step_.begin = comm::steady_seconds();
}

void StepRecorder::stop(const comm::Communicator& world, PhaseTimers& timers) {
  step_.end = comm::steady_seconds();
  timers.record_events(false);
  world.ledger().record_calls(false);
}

StepTrace StepRecorder::take(const parallel::Mesh& mesh, const comm::Ledger& ledger,
                             const PhaseTimers& timers, const comm::CommonClock& clock) const {
  StepTrace trace;
  trace.begin = clock(step_.begin);
  trace.end = clock(step_.end);
  trace.step = number_;
  for (const auto& event : timers.events()) {
    TracedPhase& phase = trace.phases.emplace_back();
    phase.begin = clock(event.begin);
    phase.end = clock(event.end);
    phase.name = timers.entries()[static_cast<std::size_t>(event.entry)].name;
    phase.depth = event.depth;
  }
  std::map<std::string, int> ranks;
  const auto communicators = {&mesh.world(), &mesh.sequence(), &mesh.shard(), &mesh.replicas()};
  for (const auto* communicator : communicators) ranks[communicator->name()] = communicator->size();
  for (const auto& call : ledger.calls()) {
    const auto& line = ledger.entries()[static_cast<std::size_t>(call.line)];
    TracedCall& traced = trace.calls.emplace_back();
    traced.begin = clock(call.begin);
    traced.end = clock(call.end);
    traced.collective = line.collective;
    traced.phase = line.phase;
    traced.communicator = line.communicator;
    traced.ranks = ranks[line.communicator];
    traced.bytes_per_peer = call.bytes_per_peer;
    traced.bytes_on_node = call.bytes_per_peer * line.peers_on_node;
    traced.bytes_off_node = call.bytes_per_peer * line.peers_off_node;
  }
  comm::Waiting unused;
  for (const auto* communicator : communicators)
    comm::add_waiting(*communicator, ledger, clock, mesh.rank(), mesh.world().size(), unused,
                      [&](const comm::Transfer& transfer, double last_arrival, int last_rank) {
                        if (transfer.call < 0) return;
                        TracedTransfer& traced =
                            trace.calls[static_cast<std::size_t>(transfer.call)].transfers.emplace_back();
                        traced.begin = clock(transfer.begin);
                        traced.end = clock(transfer.end);
                        traced.later = {clock(transfer.wait_begin), clock(transfer.wait_end)};
                        traced.last_arrival = last_arrival;
                        traced.last_rank = last_rank;
                      });
  return trace;
}

}  // namespace minisp::bench
