// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// All ranks agree before any of them fails.
#pragma once

#include "comm/communicator.hpp"

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace minisp::comm {

/// Collective. When `failure` is set on some rank, every rank throws the same Error: that of the lowest
/// failing rank, marked as agreed. Not entered in the ledger.
void agree(const Communicator& communicator, std::exception_ptr failure);

/// Runs f() on every rank and then agrees. f must not wait for other ranks (a rank that fails before it would
/// leave them waiting), unless what it calls agrees itself. std::bad_alloc becomes Error (environment).
template <class F>
auto collective_guard(const Communicator& communicator, F&& f) -> std::invoke_result_t<F> {
  std::exception_ptr failure;
  if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
    try {
      std::forward<F>(f)();
    } catch (...) {
      failure = std::current_exception();
    }
    agree(communicator, failure);
  } else {
    std::optional<std::invoke_result_t<F>> result;
    try {
      result.emplace(std::forward<F>(f)());
    } catch (...) {
      failure = std::current_exception();
    }
    agree(communicator, failure);
    return std::move(*result);
  }
}

}  // namespace minisp::comm
