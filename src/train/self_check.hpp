// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Before a run is believed: a small fp64 twin of the deck, on the same ranks and groups, against one rank.
#pragma once

#include "comm/communicator.hpp"
#include "config/config.hpp"
#include "io/result.hpp"

#include <vector>

namespace minisp::train {

/// The deck with the same heads, groups and options and small everything else: fp64, two blocks, a short
/// sequence per rank of a group, synthetic tokens.
config::Config twin_of(const config::Config& config, int sequence_degree);

/// Collective over `world`. Checks of the twin under the deck's decomposition: loss and every gradient
/// against one rank (worst relative 2-norm error, at most 1e-12: reordered sums of some thousand terms differ
/// by less), weights equal on all ranks bit for bit, and no token sees a later one (bit for bit). The same on
/// every rank.
std::vector<io::CheckRow> self_check(const comm::Communicator& world, const config::Config& config);

/// Whether all ranks hold the same bits: the number of ranks that differ from rank 0. Collective.
template <class T>
Index ranks_that_differ(const comm::Communicator& world, const Vector<const T>& data);

/// ||a - b|| / max(||b||, floor); infinite or NaN values give infinity.
double relative_error(const double* a, const double* b, Index size, double floor = 0);

}  // namespace minisp::train
