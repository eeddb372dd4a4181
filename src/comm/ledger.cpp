// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/ledger.hpp"

#include <utility>

namespace minisp::comm {

Ledger::Scope::Scope(Ledger& ledger, std::string label)
    : ledger_(ledger), outer_(std::exchange(ledger.phase_, std::move(label))) {}

Ledger::Scope::~Scope() {
  ledger_.phase_ = std::move(outer_);
}

void Ledger::enter(const LedgerEntry& call) {
  for (auto& entry : entries_) {
    if (entry.collective != call.collective || entry.phase != phase_ ||
        entry.communicator != call.communicator)
      continue;
    entry.calls += call.calls;
    entry.bytes_on_node += call.bytes_on_node;
    entry.bytes_off_node += call.bytes_off_node;
    entry.seconds += call.seconds;
    return;
  }
  entries_.push_back(call);
  entries_.back().phase = phase_;
}

}  // namespace minisp::comm
