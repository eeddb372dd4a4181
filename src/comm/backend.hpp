// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What a way of moving bytes has to offer. Collectives on views are written against this; another library
// (NCCL) is another implementation. Buffers are in the default memory space; work is ordered after earlier
// work in `exec`, and a call returns when the received data may be used by work that `exec` gets next.
#pragma once

#include "util/views.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace minisp::comm {

/// A collective under way. wait() is called once, by Request.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// As MPI_Comm_split: collective over all ranks of this one.
  virtual std::shared_ptr<Backend> split(int color, int key) const = 0;

  /// Node of each rank: less may go over slow links from then on. Collective; does nothing where the library
  /// knows by itself.
  virtual void set_nodes(const std::vector<int>&) {}

  /// Block i of `send` goes to rank i; block i of `receive` comes from rank i. The buffers do not overlap.
  virtual void all_to_all(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) = 0;
  /// The same, started; the buffers are left alone until wait().
  virtual std::unique_ptr<Pending> start_all_to_all(const Exec& exec, const void* send, void* receive,
                                                    std::size_t block_bytes) = 0;
  /// receive = the ranks' blocks one after the other.
  virtual void all_gather(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) = 0;
  /// The same, started.
  virtual std::unique_ptr<Pending> start_all_gather(const Exec& exec, const void* send, void* receive,
                                                    std::size_t block_bytes) = 0;
  virtual void broadcast(const Exec& exec, void* data, std::size_t bytes, int root) = 0;

  /// Small messages in host memory.
  virtual void host_all_gather(const void* send, void* receive, std::size_t block_bytes) = 0;
  virtual void host_broadcast(void* data, std::size_t bytes, int root) = 0;
  virtual void barrier() = 0;
  /// From this rank to another one, which receives as many bytes.
  virtual void host_send(const void* data, std::size_t bytes, int to) = 0;
  virtual void host_receive(void* data, std::size_t bytes, int from) = 0;
};

}  // namespace minisp::comm
