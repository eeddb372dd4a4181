// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/recording_backend.hpp"

#include "comm/clock.hpp"

#include <utility>

namespace minisp::comm {

namespace {

/// Runs `transfer` and reports when.
template <class F>
Ledger::Mark record(Ledger& ledger, int communicator, bool holds_others, F&& transfer) {
  const double begin = steady_seconds();
  transfer();
  return ledger.add_transfer(communicator, holds_others, begin, steady_seconds());
}

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
    : inner_(std::move(inner)), ledger_(std::move(ledger)), communicator_(ledger_->add_communicator()) {}

void RecordingBackend::all_to_all(const Exec& exec, const void* send, void* receive,
                                  std::size_t block_bytes) {
  record(*ledger_, communicator_, true, [&] { inner_->all_to_all(exec, send, receive, block_bytes); });
}

std::unique_ptr<Pending> RecordingBackend::start_all_to_all(const Exec& exec, const void* send, void* receive,
                                                            std::size_t block_bytes) {
  std::unique_ptr<Pending> pending;
  const auto mark = record(*ledger_, communicator_, true,
                           [&] { pending = inner_->start_all_to_all(exec, send, receive, block_bytes); });
  if (!pending) return nullptr;
  return std::make_unique<RecordedPending>(std::move(pending), ledger_, mark);
}

void RecordingBackend::all_gather(const Exec& exec, const void* send, void* receive,
                                  std::size_t block_bytes) {
  record(*ledger_, communicator_, true, [&] { inner_->all_gather(exec, send, receive, block_bytes); });
}

std::unique_ptr<Pending> RecordingBackend::start_all_gather(const Exec& exec, const void* send, void* receive,
                                                            std::size_t block_bytes) {
  std::unique_ptr<Pending> pending;
  const auto mark = record(*ledger_, communicator_, true,
                           [&] { pending = inner_->start_all_gather(exec, send, receive, block_bytes); });
  if (!pending) return nullptr;
  return std::make_unique<RecordedPending>(std::move(pending), ledger_, mark);
}

void RecordingBackend::broadcast(const Exec& exec, void* data, std::size_t bytes, int root) {
  record(*ledger_, communicator_, rank() == root, [&] { inner_->broadcast(exec, data, bytes, root); });
}

void RecordingBackend::host_all_gather(const void* send, void* receive, std::size_t block_bytes) {
  record(*ledger_, communicator_, true, [&] { inner_->host_all_gather(send, receive, block_bytes); });
}

void RecordingBackend::host_broadcast(void* data, std::size_t bytes, int root) {
  record(*ledger_, communicator_, rank() == root, [&] { inner_->host_broadcast(data, bytes, root); });
}

void RecordingBackend::barrier() {
  record(*ledger_, communicator_, true, [&] { inner_->barrier(); });
}

}  // namespace minisp::comm
