// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Sum over ranks of which each rank keeps one block; summed in rank order, the same bits in every run.
#pragma once

#include "comm/communicator.hpp"

namespace minisp::comm {

/// sum (n / size elements) = or += the sum over ranks of block `rank` of their `data` (n elements, size
/// blocks). T, S: double, float; S is the type that is summed in, T the one that is sent. An all-to-all of
/// blocks, which each rank sums. `sum` may lie in `data`. Sends one block to each other rank. Uses the
/// communicator's workspace of n elements.
template <class T, class S>
void reduce_scatter_sum(const Communicator& communicator, const Exec& exec, const Vector<const T>& data,
                        bool add, const Vector<S>& sum);

}  // namespace minisp::comm
