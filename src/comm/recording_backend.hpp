// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Another backend whose collectives tell the ledger when this rank came and when it could go on.
#pragma once

#include "comm/backend_decorator.hpp"
#include "comm/clock.hpp"
#include "comm/ledger.hpp"

namespace minisp::comm {

class RecordingBackend : public BackendDecorator<RecordingBackend> {
 public:
  RecordingBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Ledger> ledger);

  /// This communicator's number in the ledger.
  int communicator() const { return communicator_; }
  /// Not recorded: the communicator that takes it records.
  std::shared_ptr<Backend> split(int color, int key) const override { return inner()->split(color, key); }

 private:
  friend BackendDecorator<RecordingBackend>;
  template <class F>
  Ledger::Mark pass_on(bool holds_others, F&& collective) {
    const double begin = steady_seconds();
    collective();
    return ledger_->add_transfer(communicator_, holds_others, begin, steady_seconds());
  }
  template <class Whole, class Begin>
  std::unique_ptr<Pending> pass_on_started(const Whole&, const Begin& begin) {
    std::unique_ptr<Pending> pending;
    const auto mark = pass_on(true, [&] { pending = begin(); });
    return recorded(std::move(pending), mark);
  }
  std::unique_ptr<Pending> recorded(std::unique_ptr<Pending> pending, const Ledger::Mark& mark) const;

  std::shared_ptr<Ledger> ledger_;
  int communicator_;
};

}  // namespace minisp::comm
