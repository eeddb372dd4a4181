// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What backends that pass their work on to another one have in common. Self says what is done about a
// collective, in two members:
//   template <class F> void pass_on(bool holds_others, F&& collective);
//     runs `collective`; holds_others: others cannot be done before this rank has come
//   template <class Whole, class Begin> std::unique_ptr<Pending> pass_on_started(const Whole&, const Begin&);
//     of a collective that is to be started, given as a call that does it whole and as one that starts it
#pragma once

#include "comm/backend.hpp"

#include <utility>

namespace minisp::comm {

template <class Self>
class BackendDecorator : public Backend {
 public:
  /// What does the work.
  const std::shared_ptr<Backend>& inner() const { return inner_; }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void set_nodes(const std::vector<int>& nodes) override { inner_->set_nodes(nodes); }

  void all_to_all(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) override {
    self().pass_on(true, [&] { inner_->all_to_all(exec, send, receive, block_bytes); });
  }
  std::unique_ptr<Pending> start_all_to_all(const Exec& exec, const void* send, void* receive,
                                            std::size_t block_bytes) override {
    return self().pass_on_started([=, this] { inner_->all_to_all(exec, send, receive, block_bytes); },
                                  [&] { return inner_->start_all_to_all(exec, send, receive, block_bytes); });
  }
  void all_gather(const Exec& exec, const void* send, void* receive, std::size_t block_bytes) override {
    self().pass_on(true, [&] { inner_->all_gather(exec, send, receive, block_bytes); });
  }
  std::unique_ptr<Pending> start_all_gather(const Exec& exec, const void* send, void* receive,
                                            std::size_t block_bytes) override {
    return self().pass_on_started([=, this] { inner_->all_gather(exec, send, receive, block_bytes); },
                                  [&] { return inner_->start_all_gather(exec, send, receive, block_bytes); });
  }
  void broadcast(const Exec& exec, void* data, std::size_t bytes, int root) override {
    self().pass_on(rank() == root, [&] { inner_->broadcast(exec, data, bytes, root); });
  }
  void host_all_gather(const void* send, void* receive, std::size_t block_bytes) override {
    self().pass_on(true, [&] { inner_->host_all_gather(send, receive, block_bytes); });
  }
  void host_broadcast(void* data, std::size_t bytes, int root) override {
    self().pass_on(rank() == root, [&] { inner_->host_broadcast(data, bytes, root); });
  }
  void barrier() override {
    self().pass_on(true, [&] { inner_->barrier(); });
  }
  // Between two ranks: no collective.
  void host_send(const void* data, std::size_t bytes, int to) override { inner_->host_send(data, bytes, to); }
  void host_receive(void* data, std::size_t bytes, int from) override {
    inner_->host_receive(data, bytes, from);
  }

 protected:
  explicit BackendDecorator(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}

 private:
  Self& self() { return static_cast<Self&>(*this); }

  std::shared_ptr<Backend> inner_;
};

}  // namespace minisp::comm
