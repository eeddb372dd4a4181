// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Every rank sends a block to every rank: the exchange of tokens for heads.
#pragma once

#include "comm/communicator.hpp"
#include "comm/measure.hpp"
#include "comm/request.hpp"

#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace minisp::comm {

namespace detail {

/// Bytes of one of `size` equal blocks, after checking what every all-to-all needs.
template <class View>
std::size_t all_to_all_block_bytes(const View& send, const View& receive, int size) {
  if (send.size() != receive.size() || send.size() % static_cast<std::size_t>(size) != 0)
    throw std::invalid_argument("all_to_all: buffers of equal size in one block a rank are needed");
  if (!send.span_is_contiguous() || !receive.span_is_contiguous())
    throw std::invalid_argument("all_to_all: contiguous buffers are needed");
  return send.size() / static_cast<std::size_t>(size) * sizeof(typename View::value_type);
}

}  // namespace detail

/// Block i of `receive` = block `rank` of rank i's `send`; a view is cut into size() equal blocks (Matrix: of
/// rows). The buffers are distinct and contiguous. Sends one block to each other rank.
/// Not for T* (Matrix<U> is Vector<U*> as well): Kokkos 5 refuses to look at a Vector<U* const>.
template <class T>
requires(!std::is_pointer_v<T>) void all_to_all(const Communicator& communicator, const Exec& exec,
                                                const std::type_identity_t<Vector<const T>>& send,
                                                const Vector<T>& receive) {
  const auto bytes = detail::all_to_all_block_bytes<Vector<const T>>(send, receive, communicator.size());
  measure(communicator, exec, "all_to_all", static_cast<Index>(bytes),
          [&] { communicator.backend().all_to_all(exec, send.data(), receive.data(), bytes); });
}
template <class T>
void all_to_all(const Communicator& communicator, const Exec& exec,
                const std::type_identity_t<Matrix<const T>>& send, const Matrix<T>& receive) {
  const auto bytes = detail::all_to_all_block_bytes<Matrix<const T>>(send, receive, communicator.size());
  measure(communicator, exec, "all_to_all", static_cast<Index>(bytes),
          [&] { communicator.backend().all_to_all(exec, send.data(), receive.data(), bytes); });
}

/// The same, started. `send` is left alone and `receive` not read until the request has been waited for. The
/// ledger gets the call at once, and its seconds are those in this call and in the wait.
template <class T>
[[nodiscard]] Request start_all_to_all(const Communicator& communicator, const Exec& exec,
                                       const std::type_identity_t<Vector<const T>>& send,
                                       const Vector<T>& receive) {
  const auto bytes = detail::all_to_all_block_bytes<Vector<const T>>(send, receive, communicator.size());
  std::unique_ptr<Pending> pending;
  measure(communicator, exec, "all_to_all", static_cast<Index>(bytes), [&] {
    pending = communicator.backend().start_all_to_all(exec, send.data(), receive.data(), bytes);
  });
  return Request(std::move(pending), std::make_shared<std::pair<Vector<const T>, Vector<T>>>(send, receive));
}

}  // namespace minisp::comm
