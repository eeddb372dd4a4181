// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Single numbers in host memory: counts of tokens, losses, times.
#pragma once

#include "comm/communicator.hpp"

#include <vector>

namespace minisp::comm {

/// The ranks' values in rank order. T: double, Index. In the ledger "scalars": 8 bytes to each other rank.
template <class T>
std::vector<T> gather_scalar(const Communicator& communicator, T value);

/// Sum in rank order (the same bits everywhere), largest, smallest.
double sum(const Communicator& communicator, double value);
Index sum(const Communicator& communicator, Index value);
double maximum(const Communicator& communicator, double value);
Index maximum(const Communicator& communicator, Index value);
double minimum(const Communicator& communicator, double value);
Index minimum(const Communicator& communicator, Index value);

}  // namespace minisp::comm
