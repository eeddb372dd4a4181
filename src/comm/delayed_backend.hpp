// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Another backend under bad weather: ranks come late to collectives, and what has been started arrives at
// once, in its own time, or only when it is waited for. Programs that are right compute the same bits.
#pragma once

#include "comm/backend_decorator.hpp"

#include <cstdint>
#include <functional>

namespace minisp::comm {

struct Delays {
  std::uint64_t seed = 0;
  double longest_seconds = 1e-3;  ///< of a rank before a collective
};

class DelayedBackend : public BackendDecorator<DelayedBackend> {
 public:
  DelayedBackend(std::shared_ptr<Backend> inner, const Delays& delays);
  std::shared_ptr<Backend> split(int color, int key) const override;

 private:
  friend BackendDecorator<DelayedBackend>;
  template <class F>
  void pass_on(bool, F&& collective) {
    come_late();
    collective();
  }
  std::unique_ptr<Pending> pass_on_started(std::function<void()> whole,
                                           const std::function<std::unique_ptr<Pending>()>& begin);
  /// Sleeps a while of this rank's own; counts the call.
  void come_late();

  Delays delays_;
  std::uint64_t calls_ = 0;
};

}  // namespace minisp::comm
