// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Every rank gets every rank's block.
#pragma once

#include "comm/communicator.hpp"
#include "comm/measure.hpp"

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

}  // namespace minisp::comm
