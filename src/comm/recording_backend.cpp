// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/recording_backend.hpp"

#include <utility>

namespace minisp::comm {

namespace {

class RecordedPending : public Pending {
 public:
  RecordedPending(std::unique_ptr<Pending> inner, std::shared_ptr<Ledger> ledger, const Ledger::Mark& mark)
      : inner_(std::move(inner)), ledger_(std::move(ledger)), mark_(mark) {}

  void wait() override {
    const double begin = steady_seconds();
    inner_->wait();
    ledger_->add_wait(mark_, begin, steady_seconds());
  }

 private:
  std::unique_ptr<Pending> inner_;
  std::shared_ptr<Ledger> ledger_;
  Ledger::Mark mark_;
};

}  // namespace

RecordingBackend::RecordingBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Ledger> ledger)
    : BackendDecorator(std::move(inner)),
      ledger_(std::move(ledger)),
      communicator_(ledger_->add_communicator()) {}

std::unique_ptr<Pending> RecordingBackend::recorded(std::unique_ptr<Pending> pending,
                                                    const Ledger::Mark& mark) const {
  if (!pending) return nullptr;
  return std::make_unique<RecordedPending>(std::move(pending), ledger_, mark);
}

}  // namespace minisp::comm
