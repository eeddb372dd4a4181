// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Another backend whose collectives tell the ledger when this rank came and when it could go on.
#pragma once

#include "comm/backend.hpp"
#include "comm/ledger.hpp"

namespace minisp::comm {

class RecordingBackend : public Backend {
 public:
  RecordingBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Ledger> ledger);

  /// What does the work, to build on.
  const std::shared_ptr<Backend>& inner() const { return inner_; }
  /// This communicator's number in the ledger.
  int communicator() const { return communicator_; }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  /// Not recorded: the communicator that takes it records.
  std::shared_ptr<Backend> split(int color, int key) const override { return inner_->split(color, key); }

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
  std::shared_ptr<Backend> inner_;
  std::shared_ptr<Ledger> ledger_;
  int communicator_;
};

}  // namespace minisp::comm
