// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/mpi_backend.hpp"

#include "comm/mpi_call.hpp"

#include <optional>
#include <utility>

namespace minisp::comm {

namespace {

using HostBytes = HostVector<std::byte>;

/// The first `bytes` of `buffer`, which grows when it has to.
HostBytes host_bytes(HostBytes& buffer, std::size_t bytes) {
  if (buffer.size() < bytes)
    buffer = HostBytes(uninitialized("minisp::comm::staging"), static_cast<Index>(bytes));
  return Kokkos::subview(buffer, Kokkos::make_pair(Index{0}, static_cast<Index>(bytes)));
}

void to_host(const Exec& exec, const void* data, const HostBytes& host) {
  const auto n = static_cast<Index>(host.size());
  Kokkos::deep_copy(exec, host, Vector<const std::byte>(static_cast<const std::byte*>(data), n));
  exec.fence();
}

void from_host(const Exec& exec, const HostBytes& host, void* data) {
  const auto n = static_cast<Index>(host.size());
  Kokkos::deep_copy(exec, Vector<std::byte>(static_cast<std::byte*>(data), n), host);
  exec.fence();
}

// A collective under way, with the host copies of its buffers where MPI does not take device memory.
class PendingCollective : public Pending {
 public:
  using Start = int (*)(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Request*);

  PendingCollective(Start start, const char* name, MPI_Comm comm, bool staged, const Exec& exec,
                    const void* send, std::size_t send_bytes, void* receive, std::size_t receive_bytes,
                    std::size_t block_bytes)
      : message_(block_bytes), exec_(exec), receive_(receive) {
    void* target = receive;
    if (staged) {
      HostBytes none;
      staged_send_ = host_bytes(none, send_bytes);
      none = {};
      staged_receive_ = host_bytes(none, receive_bytes);
      to_host(exec, send, staged_send_);
      send = staged_send_.data();
      target = staged_receive_.data();
    }
    check_mpi(start(send, message_.count(), message_.type(), target, message_.count(), message_.type(), comm,
                    &request_),
              name);
  }

  void wait() override {
    check_mpi(MPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_Wait");
    if (staged_receive_.size() > 0) from_host(exec_, staged_receive_, receive_);
  }

 private:
  MessageType message_;
  Exec exec_;
  void* receive_;
  HostBytes staged_send_, staged_receive_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace

MpiBackend::MpiBackend(MPI_Comm owned, bool staged) : comm_(owned), staged_(staged) {
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

MpiBackend::~MpiBackend() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Comm_free(&comm_);
}

void MpiBackend::set_nodes(const std::vector<int>& nodes) {
  two_stages_ = TwoStageGather::make(comm_, nodes);
}

std::shared_ptr<Backend> MpiBackend::split(int color, int key) const {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm_, color, key, &part), "MPI_Comm_split");
  return std::make_shared<MpiBackend>(part, staged_);
}

void MpiBackend::all_to_all(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) {
  const MessageType message(block_bytes);
  const std::size_t bytes = block_bytes * static_cast<std::size_t>(size_);
  void* target = receive;
  if (staged_) {
    const auto host_send = host_bytes(staged_send_, bytes);
    to_host(exec, send, host_send);
    send = host_send.data();
    target = host_bytes(staged_receive_, bytes).data();
  }
  check_mpi(
      MPI_Alltoall(send, message.count(), message.type(), target, message.count(), message.type(), comm_),
      "MPI_Alltoall");
  if (staged_) from_host(exec, host_bytes(staged_receive_, bytes), receive);
}

std::unique_ptr<Pending> MpiBackend::start_all_to_all(const Exec& exec, const void* send, void* receive,
                                                      std::size_t block_bytes) {
  const std::size_t bytes = block_bytes * static_cast<std::size_t>(size_);
  return std::make_unique<PendingCollective>(MPI_Ialltoall, "MPI_Ialltoall", comm_, staged_, exec, send,
                                             bytes, receive, bytes, block_bytes);
}

std::unique_ptr<Pending> MpiBackend::start_all_gather(const Exec& exec, const void* send, void* receive,
                                                      std::size_t block_bytes) {
  return std::make_unique<PendingCollective>(MPI_Iallgather, "MPI_Iallgather", comm_, staged_, exec, send,
                                             block_bytes, receive,
                                             block_bytes * static_cast<std::size_t>(size_), block_bytes);
}

void MpiBackend::all_gather(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) {
  if (!staged_) return host_all_gather(send, receive, block_bytes);
  const auto host_send = host_bytes(staged_send_, block_bytes);
  const auto host_receive = host_bytes(staged_receive_, block_bytes * static_cast<std::size_t>(size_));
  to_host(exec, send, host_send);
  host_all_gather(host_send.data(), host_receive.data(), block_bytes);
  from_host(exec, host_receive, receive);
}

void MpiBackend::broadcast(const Exec& exec, void* data, std::size_t bytes, int root) {
  if (!staged_) return host_broadcast(data, bytes, root);
  const auto host = host_bytes(staged_send_, bytes);
  if (rank_ == root) to_host(exec, data, host);
  host_broadcast(host.data(), bytes, root);
  if (rank_ != root) from_host(exec, host, data);
}

void MpiBackend::host_all_gather(const void* send, void* receive, std::size_t block_bytes) {
  if (two_stages_) return two_stages_->run(send, receive, block_bytes);
  const MessageType message(block_bytes);
  check_mpi(
      MPI_Allgather(send, message.count(), message.type(), receive, message.count(), message.type(), comm_),
      "MPI_Allgather");
}

void MpiBackend::host_broadcast(void* data, std::size_t bytes, int root) {
  const MessageType message(bytes);
  check_mpi(MPI_Bcast(data, message.count(), message.type(), root, comm_), "MPI_Bcast");
}

void MpiBackend::barrier() {
  check_mpi(MPI_Barrier(comm_), "MPI_Barrier");
}

void MpiBackend::host_send(const void* data, std::size_t bytes, int to) {
  const MessageType message(bytes);
  check_mpi(MPI_Send(data, message.count(), message.type(), to, 0, comm_), "MPI_Send");
}

void MpiBackend::host_receive(void* data, std::size_t bytes, int from) {
  const MessageType message(bytes);
  check_mpi(MPI_Recv(data, message.count(), message.type(), from, 0, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
}

}  // namespace minisp::comm
