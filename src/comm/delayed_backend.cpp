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
    : BackendDecorator(std::move(inner)), delays_(delays) {}

std::shared_ptr<Backend> DelayedBackend::split(int color, int key) const {
  return std::make_shared<DelayedBackend>(inner()->split(color, key), delays_);
}

void DelayedBackend::come_late() {
  const double share = math::random_uniform(delays_.seed, 1 + static_cast<std::uint64_t>(rank()), calls_++);
  std::this_thread::sleep_for(std::chrono::duration<double>(share * delays_.longest_seconds));
}

std::unique_ptr<Pending> DelayedBackend::pass_on_started(
    std::function<void()> whole, const std::function<std::unique_ptr<Pending>()>& begin) {
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

}  // namespace minisp::comm
