// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Times a collective and enters it in the ledger.
#pragma once

#include "comm/communicator.hpp"

#include <chrono>

namespace minisp::comm {

/// Runs `collective`, which sends `bytes_per_peer` to each other rank. Earlier work in `exec` is awaited
/// before the clock starts; what the collective itself leaves in `exec` is not.
template <class F>
void measure(const Communicator& communicator, const Exec& exec, const char* name, Index bytes_per_peer,
             F&& collective) {
  exec.fence();
  const auto start = std::chrono::steady_clock::now();
  collective();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  communicator.enter(name, bytes_per_peer, elapsed.count());
}

}  // namespace minisp::comm
