// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/delayed_backend.hpp"

#include "math/random.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace minisp::comm {

namespace {

/// A collective that is not started before it is waited for.
class Deferred : public Pending {
 public:
  explicit Deferred(std::function<void()> collective) : collective_(std::move(collective)) {}
  void wait() override { collective_(); }

 private:
  std::function<void()> collective_;
};

}  // namespace

DelayedBackend::DelayedBackend(std::shared_ptr<Backend> inner, const Delays& delays)
    : inner_(std::move(inner)), delays_(delays) {}

std::shared_ptr<Backend> DelayedBackend::split(int color, int key) const {
  return std::make_shared<DelayedBackend>(inner_->split(color, key), delays_);
}

void DelayedBackend::come_late() {
  const double share = math::random_uniform(delays_.seed, 1 + static_cast<std::uint64_t>(rank()), calls_++);
  std::this_thread::sleep_for(std::chrono::duration<double>(share * delays_.longest_seconds));
}

std::unique_ptr<Pending> DelayedBackend::start(std::function<void()> whole,
                                               const std::function<std::unique_ptr<Pending>()>& begin) {
  come_late();
  // The same choice on every rank: a deferred call changes places with others.
  switch (static_cast<int>(3 * math::random_uniform(delays_.seed, 0, calls_))) {
    case 0:  // everything is there at once
      whole();
      return nullptr;
    case 1:  // nothing before it is waited for
      return std::make_unique<Deferred>(std::move(whole));
    default:
      return begin();
  }
}

void DelayedBackend::all_to_all(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) {
  come_late();
  inner_->all_to_all(exec, send, receive, block_bytes);
}

std::unique_ptr<Pending> DelayedBackend::start_all_to_all(const Exec& exec, const void* send, void* receive,
                                                          std::size_t block_bytes) {
  return start([=, this] { inner_->all_to_all(exec, send, receive, block_bytes); },
               [=, this] { return inner_->start_all_to_all(exec, send, receive, block_bytes); });
}

void DelayedBackend::all_gather(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) {
  come_late();
  inner_->all_gather(exec, send, receive, block_bytes);
}

std::unique_ptr<Pending> DelayedBackend::start_all_gather(const Exec& exec, const void* send, void* receive,
                                                          std::size_t block_bytes) {
  return start([=, this] { inner_->all_gather(exec, send, receive, block_bytes); },
               [=, this] { return inner_->start_all_gather(exec, send, receive, block_bytes); });
}

void DelayedBackend::broadcast(const Exec& exec, void* data, std::size_t bytes, int root) {
  come_late();
  inner_->broadcast(exec, data, bytes, root);
}

void DelayedBackend::host_all_gather(const void* send, void* receive, std::size_t block_bytes) {
  come_late();
  inner_->host_all_gather(send, receive, block_bytes);
}

void DelayedBackend::host_broadcast(void* data, std::size_t bytes, int root) {
  come_late();
  inner_->host_broadcast(data, bytes, root);
}

void DelayedBackend::barrier() {
  come_late();
  inner_->barrier();
}

}  // namespace minisp::comm
