// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Times a collective and enters it in the ledger.
#pragma once

#include "comm/clock.hpp"
#include "comm/communicator.hpp"

namespace minisp::comm {

/// Runs `collective`, which sends `bytes_per_peer` to each other rank. Earlier work in `exec` is awaited
/// before the clock starts; what the collective itself leaves in `exec` is not.
template <class F>
void measure(const Communicator& communicator, const Exec& exec, const char* name, Index bytes_per_peer,
             F&& collective) {
  exec.fence();
  const auto call = communicator.ledger().open(name, communicator.name());
  const double start = steady_seconds();
  collective();
  const double end = steady_seconds();
  communicator.enter(name, bytes_per_peer, end - start);
  communicator.ledger().add_call(start, end, bytes_per_peer);
}

}  // namespace minisp::comm
