// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Another backend with one slow link: whatever the rank at its end takes part in takes longer on the wire, on
// all ranks that take part. Programs compute the same bits.
#pragma once

#include "comm/backend.hpp"

#include <functional>

namespace minisp::comm {

struct SlowLink {
  int rank = -1;       ///< of the world: the one at the end of the link
  double seconds = 0;  ///< that the link adds to a collective
};

/// A blocking collective ends so much later on every rank. One that was started is over no sooner than so
/// long after this rank started it, so that work in between hides the delay, as it hides a link's.
class SlowLinkBackend : public Backend {
 public:
  /// Collective over `inner`, of which this rank is rank `world_rank` of the world.
  SlowLinkBackend(std::shared_ptr<Backend> inner, const SlowLink& link, int world_rank);

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
  void linger() const;
  std::unique_ptr<Pending> delayed(std::unique_ptr<Pending> pending) const;

  std::shared_ptr<Backend> inner_;
  SlowLink link_;
  int world_rank_;
  bool slow_ = false;  // the rank at the end of the link is one of several here
};

}  // namespace minisp::comm
