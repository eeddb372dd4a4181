// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// One rank, no library: what it sends comes back to it.
#pragma once

#include "comm/backend.hpp"

#include <cstring>
#include <stdexcept>

namespace minisp::comm {

class SelfBackend : public Backend {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::shared_ptr<Backend> split(int, int) const override { return std::make_shared<SelfBackend>(); }

  void all_to_all(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) override {
    copy(exec, send, receive, block_bytes);
  }
  std::unique_ptr<Pending> start_all_to_all(const Exec& exec, const void* send, void* receive,
                                            std::size_t block_bytes) override {
    copy(exec, send, receive, block_bytes);
    return nullptr;
  }
  void all_gather(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) override {
    copy(exec, send, receive, block_bytes);
  }
  std::unique_ptr<Pending> start_all_gather(const Exec& exec, const void* send, void* receive,
                                            std::size_t block_bytes) override {
    copy(exec, send, receive, block_bytes);
    return nullptr;
  }
  void broadcast(const Exec&, void*, std::size_t, int) override {}

  void host_all_gather(const void* send, void* receive, std::size_t block_bytes) override {
    std::memcpy(receive, send, block_bytes);
  }
  void host_broadcast(void*, std::size_t, int) override {}
  void barrier() override {}
  void host_send(const void*, std::size_t, int) override { throw std::logic_error("there is no other rank"); }
  void host_receive(void*, std::size_t, int) override { throw std::logic_error("there is no other rank"); }

 private:
  static void copy(const Exec& exec, const void* send, void* receive, std::size_t bytes) {
    const auto n = static_cast<Index>(bytes);
    Kokkos::deep_copy(exec, Vector<std::byte>(static_cast<std::byte*>(receive), n),
                      Vector<const std::byte>(static_cast<const std::byte*>(send), n));
  }
};

}  // namespace minisp::comm
