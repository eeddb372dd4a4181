// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Sum over ranks in rank order: the same bits on every rank and in every run.
#pragma once

#include "comm/communicator.hpp"
#include "math/precision.hpp"

namespace minisp::comm {

/// data = sum of the ranks' `data`, element by element, added in rank order from rank 0 on and
/// rounded once. T: double, float, bfloat16, int, Index. Reduce-scatter (an all-to-all of chunks, each rank
/// sums its own) and all-gather, piece by piece, so that the workspace stays small. Sends 2 ceil(n / size)
/// elements to each other rank.
template <class T>
void all_reduce_sum(const Communicator& communicator, const Exec& exec, const Vector<T>& data);

/// Bytes that the communicator's workspace grows to for n elements of `element_bytes`.
std::size_t all_reduce_workspace_bytes(Index n, std::size_t element_bytes, int ranks);

}  // namespace minisp::comm
