// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// When a rank was in the communication library. A collective makes one transfer or several (an all-reduce two
// a piece); what a call does between them (copies, sums) is the rank's own work.
#pragma once

#include "util/views.hpp"

#include <cstddef>

namespace minisp::comm {

/// One collective of the backend, in seconds of this rank's steady_seconds(). The rank is blocked from
/// `begin` to `end` and, where the transfer was only started there, from `wait_begin` to `wait_end` in
/// Request::wait().
struct Transfer {
  int line = 0;              ///< of the ledger's entries
  int call = -1;             ///< of the ledger's calls, where those are remembered
  bool holds_others = true;  ///< nobody ends before this rank has come (not so for receivers of a broadcast)
  double begin = 0, end = 0;
  double wait_begin = 0, wait_end = 0;
};

/// One collective as it was called.
struct CallRecord {
  int line = 0;               ///< of the ledger's entries
  double begin = 0, end = 0;  ///< seconds of steady_seconds()
  Index bytes_per_peer = 0;   ///< sent to each other rank
};

/// Transfers of one communicator that a rank remembers (12 MiB); later ones count in the ledger's seconds
/// only.
inline constexpr std::size_t most_transfers = std::size_t{1} << 18;

}  // namespace minisp::comm
