// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/ledger.hpp"

#include <algorithm>
#include <utility>

namespace minisp::comm {

Ledger::Scope::Scope(Ledger& ledger, std::string label)
    : ledger_(ledger), outer_(std::exchange(ledger.phase_, std::move(label))) {}

Ledger::Scope::~Scope() {
  ledger_.phase_ = std::move(outer_);
}

Ledger::Call::Call(Ledger& ledger, int line)
    : ledger_(ledger), outer_(std::exchange(ledger.open_line_, line)) {}

Ledger::Call::~Call() {
  ledger_.open_line_ = outer_;
}

int Ledger::line_of(const std::string& collective, const std::string& communicator) {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].collective == collective && entries_[i].phase == phase_ &&
        entries_[i].communicator == communicator)
      return static_cast<int>(i);
  LedgerEntry& line = entries_.emplace_back();
  line.collective = collective;
  line.phase = phase_;
  line.communicator = communicator;
  return static_cast<int>(entries_.size()) - 1;
}

void Ledger::enter(const LedgerEntry& call) {
  auto& entry = entries_[static_cast<std::size_t>(line_of(call.collective, call.communicator))];
  entry.calls += call.calls;
  entry.bytes_on_node += call.bytes_on_node;
  entry.bytes_off_node += call.bytes_off_node;
  entry.peers_on_node = call.peers_on_node;
  entry.peers_off_node = call.peers_off_node;
  entry.seconds += call.seconds;
}

void Ledger::reset() {
  entries_.clear();
  ++generation_;
  calls_.clear();
  for (auto& of_communicator : transfers_) of_communicator.clear();
}

int Ledger::add_communicator() {
  transfers_.emplace_back().reserve(recording_ ? expected_ : 0);
  return static_cast<int>(transfers_.size()) - 1;
}

void Ledger::record_transfers(std::size_t expected) {
  recording_ = true;
  expected_ = std::min(expected, most_transfers);
  for (auto& of_communicator : transfers_) of_communicator.reserve(expected_);
}

void Ledger::record_calls(bool on) {
  if (on) {
    calls_.clear();
    for (auto& of_communicator : transfers_)
      for (auto& transfer : of_communicator) transfer.call = -1;
  }
  recording_calls_ = on;
}

void Ledger::add_call(double begin, double end, Index bytes_per_peer) {
  if (recording_calls_) calls_.push_back({open_line_, begin, end, bytes_per_peer});
}

Ledger::Mark Ledger::add_transfer(int communicator, bool holds_others, double begin, double end) {
  if (open_line_ < 0) return {};
  entries_[static_cast<std::size_t>(open_line_)].transfer_seconds += end - begin;
  Mark mark{.generation = generation_, .line = open_line_, .communicator = communicator};
  auto& of_communicator = transfers_[static_cast<std::size_t>(communicator)];
  if (recording_ && of_communicator.size() < most_transfers) {
    mark.transfer = of_communicator.size();
    // The call is entered when it is over: the next one.
    of_communicator.push_back({.line = open_line_,
                               .call = recording_calls_ ? static_cast<int>(calls_.size()) : -1,
                               .holds_others = holds_others,
                               .begin = begin,
                               .end = end,
                               .wait_begin = end,
                               .wait_end = end});
  }
  return mark;
}

void Ledger::add_wait(const Mark& mark, double begin, double end) {
  if (mark.generation != generation_ || mark.line < 0) return;
  auto& entry = entries_[static_cast<std::size_t>(mark.line)];
  entry.seconds += end - begin;
  entry.transfer_seconds += end - begin;
  auto& of_communicator = transfers_[static_cast<std::size_t>(mark.communicator)];
  if (mark.transfer >= of_communicator.size()) return;
  of_communicator[mark.transfer].wait_begin = begin;
  of_communicator[mark.transfer].wait_end = end;
}

}  // namespace minisp::comm
