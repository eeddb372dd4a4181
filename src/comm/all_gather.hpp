// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Every rank gets every rank's block.
#pragma once

#include "comm/communicator.hpp"
#include "comm/measure.hpp"
#include "comm/request.hpp"

#include <stdexcept>
#include <type_traits>

namespace minisp::comm {

/// Block i of `receive` (size() times as long) = `send` of rank i. Contiguous. Sends `send` to each other
/// rank.
template <class T>
void all_gather(const Communicator& communicator, const Exec& exec,
                const std::type_identity_t<Vector<const T>>& send, const Vector<T>& receive) {
  if (receive.size() != send.size() * static_cast<std::size_t>(communicator.size()))
    throw std::invalid_argument("all_gather: the receive buffer holds one block a rank");
  const auto bytes = send.size() * sizeof(T);
  measure(communicator, exec, "all_gather", static_cast<Index>(bytes),
          [&] { communicator.backend().all_gather(exec, send.data(), receive.data(), bytes); });
}

/// The same where this rank's block lies in `data` already, which becomes all ranks' blocks. Uses the
/// communicator's workspace of one block.
template <class T>
void all_gather_in_place(const Communicator& communicator, const Exec& exec, const Vector<T>& data) {
  const Index block = static_cast<Index>(data.size()) / communicator.size();
  const Vector<T> own(
      reinterpret_cast<T*>(communicator.workspace(static_cast<std::size_t>(block) * sizeof(T))), block);
  const Index begin = communicator.rank() * block;
  Kokkos::deep_copy(exec, own, Kokkos::subview(data, Kokkos::make_pair(begin, begin + block)));
  all_gather<T>(communicator, exec, own, data);
}

/// The same, started: `send` is left alone and `receive` not read until the request has been waited for. The
/// ledger gets the call at once, and its seconds are those in this call and in the wait.
template <class T>
[[nodiscard]] Request start_all_gather(const Communicator& communicator, const Exec& exec,
                                       const std::type_identity_t<Vector<const T>>& send,
                                       const Vector<T>& receive) {
  if (receive.size() != send.size() * static_cast<std::size_t>(communicator.size()))
    throw std::invalid_argument("all_gather: the receive buffer holds one block a rank");
  const auto bytes = send.size() * sizeof(T);
  std::unique_ptr<Pending> pending;
  measure(communicator, exec, "all_gather", static_cast<Index>(bytes), [&] {
    pending = communicator.backend().start_all_gather(exec, send.data(), receive.data(), bytes);
  });
  return Request(std::move(pending), std::make_shared<std::pair<Vector<const T>, Vector<T>>>(send, receive));
}

}  // namespace minisp::comm
