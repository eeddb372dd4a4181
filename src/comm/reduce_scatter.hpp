// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Sum over ranks of which each rank keeps one block; summed in rank order, the same bits in every run.
#pragma once

#include "comm/communicator.hpp"
#include "math/precision.hpp"

namespace minisp::comm {

/// sum (n / size elements) = or += the sum over ranks of block `rank` of their `data` (n elements, size
/// blocks). T: double, float, bfloat16; the sum is formed in Accumulate<T> and rounded once. An all-to-all of
/// blocks, which each rank sums. `sum` may lie in `data`. Sends one block to each other rank. Uses the
/// communicator's workspace of n elements.
template <class T>
void reduce_scatter_sum(const Communicator& communicator, const Exec& exec, const Vector<const T>& data,
                        bool add, const Vector<T>& sum);

}  // namespace minisp::comm
