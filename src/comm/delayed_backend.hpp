// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Another backend under bad weather: ranks come late to collectives, and what has been started arrives at
// once, in its own time, or only when it is waited for. Programs that are right compute the same bits.
#pragma once

#include "comm/backend.hpp"

#include <cstdint>
#include <functional>

namespace minisp::comm {

struct Delays {
  std::uint64_t seed = 0;
  double longest_seconds = 1e-3;  ///< of a rank before a collective
};

class DelayedBackend : public Backend {
 public:
  DelayedBackend(std::shared_ptr<Backend> inner, const Delays& delays);

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::shared_ptr<Backend> split(int color, int key) const override;

  void all_to_all(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) override;
  std::unique_ptr<Pending> start_all_to_all(const Exec& exec, const void* send, void* receive,
                                            std::size_t block_bytes) override;
  void all_gather(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) override;
  std::unique_ptr<Pending> start_all_gather(const Exec& exec, const void* send, void* receive,
                                            std::size_t block_bytes) override;
  void broadcast(const Exec& exec, void* data, std::size_t bytes, int root) override;
  void host_all_gather(const void* send, void* receive, std::size_t block_bytes) override;
  void host_broadcast(void* data, std::size_t bytes, int root) override;
  void barrier() override;
  void host_send(const void* data, std::size_t bytes, int to) override { inner_->host_send(data, bytes, to); }
  void host_receive(void* data, std::size_t bytes, int from) override {
    inner_->host_receive(data, bytes, from);
  }

 private:
  /// Sleeps a while of this rank's own; counts the call.
  void come_late();
  /// A started collective, given as a whole call and as one that starts it.
  std::unique_ptr<Pending> start(std::function<void()> whole,
                                 const std::function<std::unique_ptr<Pending>()>& begin);

  std::shared_ptr<Backend> inner_;
  Delays delays_;
  std::uint64_t calls_ = 0;
};

}  // namespace minisp::comm
