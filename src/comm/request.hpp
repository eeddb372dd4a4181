// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A collective that has been started.
#pragma once

#include "comm/backend.hpp"

#include <memory>
#include <utility>

namespace minisp::comm {

/// A started collective; keeps its views alive. wait() may be called again; the destructor waits.
class Request {
 public:
  Request() = default;
  Request(std::unique_ptr<Pending> pending, std::shared_ptr<const void> views)
      : pending_(std::move(pending)), views_(std::move(views)) {}
  Request(Request&&) noexcept = default;
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      finish();
      pending_ = std::move(other.pending_);
      views_ = std::move(other.views_);
    }
    return *this;
  }
  ~Request() { finish(); }

  void wait() {
    // The request is spent even when waiting fails: MPI has freed it.
    const auto pending = std::move(pending_);
    const auto views = std::move(views_);
    if (pending) pending->wait();
  }

 private:
  void finish() noexcept { wait(); }  // an error here ends the program: nobody is left to handle it

  std::unique_ptr<Pending> pending_;
  std::shared_ptr<const void> views_;
};

}  // namespace minisp::comm
