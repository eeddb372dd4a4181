// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/slow_link_backend.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace minisp::comm {

namespace {

using Clock = std::chrono::steady_clock;

class LatePending : public Pending {
 public:
  LatePending(std::unique_ptr<Pending> inner, Clock::time_point not_before)
      : inner_(std::move(inner)), not_before_(not_before) {}
  void wait() override {
    if (inner_) inner_->wait();
    std::this_thread::sleep_until(not_before_);
  }

 private:
  std::unique_ptr<Pending> inner_;
  Clock::time_point not_before_;
};

}  // namespace

SlowLinkBackend::SlowLinkBackend(std::shared_ptr<Backend> inner, const SlowLink& link, int world_rank)
    : inner_(std::move(inner)), link_(link), world_rank_(world_rank) {
  std::vector<int> members(static_cast<std::size_t>(inner_->size()));
  inner_->host_all_gather(&world_rank_, members.data(), sizeof(int));
  slow_ = members.size() > 1 && std::find(members.begin(), members.end(), link_.rank) != members.end();
}

std::shared_ptr<Backend> SlowLinkBackend::split(int color, int key) const {
  return std::make_shared<SlowLinkBackend>(inner_->split(color, key), link_, world_rank_);
}

void SlowLinkBackend::linger() const {
  if (slow_) std::this_thread::sleep_for(std::chrono::duration<double>(link_.seconds));
}

std::unique_ptr<Pending> SlowLinkBackend::delayed(std::unique_ptr<Pending> pending) const {
  if (!slow_) return pending;
  const std::chrono::duration<double> delay(link_.seconds);
  return std::make_unique<LatePending>(std::move(pending),
                                       Clock::now() + std::chrono::duration_cast<Clock::duration>(delay));
}

void SlowLinkBackend::all_to_all(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) {
  inner_->all_to_all(exec, send, receive, block_bytes);
  linger();
}

std::unique_ptr<Pending> SlowLinkBackend::start_all_to_all(const Exec& exec, const void* send, void* receive,
                                                           std::size_t block_bytes) {
  return delayed(inner_->start_all_to_all(exec, send, receive, block_bytes));
}

void SlowLinkBackend::all_gather(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) {
  inner_->all_gather(exec, send, receive, block_bytes);
  linger();
}

std::unique_ptr<Pending> SlowLinkBackend::start_all_gather(const Exec& exec, const void* send, void* receive,
                                                           std::size_t block_bytes) {
  return delayed(inner_->start_all_gather(exec, send, receive, block_bytes));
}

void SlowLinkBackend::broadcast(const Exec& exec, void* data, std::size_t bytes, int root) {
  inner_->broadcast(exec, data, bytes, root);
  linger();
}

void SlowLinkBackend::host_all_gather(const void* send, void* receive, std::size_t block_bytes) {
  inner_->host_all_gather(send, receive, block_bytes);
  linger();
}

void SlowLinkBackend::host_broadcast(void* data, std::size_t bytes, int root) {
  inner_->host_broadcast(data, bytes, root);
  linger();
}

void SlowLinkBackend::barrier() {
  inner_->barrier();
  linger();
}

}  // namespace minisp::comm
