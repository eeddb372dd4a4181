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
    : BackendDecorator(std::move(inner)), link_(link), world_rank_(world_rank) {
  std::vector<int> members(static_cast<std::size_t>(size()));
  this->inner()->host_all_gather(&world_rank_, members.data(), sizeof(int));
  slow_ = members.size() > 1 && std::find(members.begin(), members.end(), link_.rank) != members.end();
}

std::shared_ptr<Backend> SlowLinkBackend::split(int color, int key) const {
  return std::make_shared<SlowLinkBackend>(inner()->split(color, key), link_, world_rank_);
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

}  // namespace minisp::comm
