// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Waiting and moving bytes apart. A transfer can be over on no rank before its last rank has come: what a
// rank is kept in it until then is waiting (for a rank that is slow or has more to do), what comes after is
// the wire (for a link or a library that is slow).
//
//   last arrival = latest begin of the transfer among the communicator's ranks, on the common clock
//   wait         = the part of [begin, end] and [wait_begin, wait_end] before the last arrival
//   wire         = the part after it
//
// wait + wire is what the rank was kept, whatever the clocks' error, which moves time from one to the other.
#pragma once

#include "comm/clock.hpp"
#include "comm/communicator.hpp"
#include "comm/ledger.hpp"

#include <functional>
#include <vector>

namespace minisp::comm {

/// Seconds of this rank, added up over transfers.
struct Waiting {
  std::vector<double> wait, wire;  ///< of each line of the ledger
  std::vector<double> waited_for;  ///< of each world rank: while it was the last to arrive
};

/// Is shown each transfer with the last arrival (on the common clock) and the world rank that it was of.
using TransferVisitor = std::function<void(const Transfer&, double last_arrival, int last_rank)>;

/// Adds the transfers of `communicator` in `ledger` (a copy from before this call). Collective over the
/// communicator, in pieces of bounded memory; the ledger's own entries do not grow. `world_ranks` is the size
/// of the world, `world_rank` this rank's place in it.
void add_waiting(const Communicator& communicator, const Ledger& ledger, const CommonClock& clock,
                 int world_rank, int world_ranks, Waiting& sum, const TransferVisitor& visit = {});

}  // namespace minisp::comm
