// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Collectives by MPI.
#pragma once

#include "comm/backend.hpp"
#include "comm/two_stage_gather.hpp"

#include <mpi.h>

#include <memory>
#include <vector>

namespace minisp::comm {

class MpiBackend : public Backend {
 public:
  /// Takes over `owned`, which it frees. With `staged`, views go by way of host memory.
  MpiBackend(MPI_Comm owned, bool staged);
  ~MpiBackend() override;
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void set_nodes(const std::vector<int>& nodes) override;
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
  void host_send(const void* data, std::size_t bytes, int to) override;
  void host_receive(void* data, std::size_t bytes, int from) override;

  MPI_Comm handle() const { return comm_; }

 private:
  MPI_Comm comm_;
  bool staged_;
  int rank_ = 0, size_ = 1;
  std::unique_ptr<TwoStageGather> two_stages_;
  // Host copies of what is sent and received by the blocking calls, grown once; unused unless staged.
  HostVector<std::byte> staged_send_, staged_receive_;
};

}  // namespace minisp::comm
