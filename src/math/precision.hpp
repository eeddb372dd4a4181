// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Number types: what is stored and what is summed in. bf16 storage with fp32 accumulation is one more
// specialisation; no kernel names a type of its own.
#pragma once

namespace minisp {

/// The type in which sums over T are formed, and in which gradients of weights and optimizer states of a
/// model stored in T are held.
template <class T>
struct AccumulateType {
  using type = T;
};
template <class T>
using Accumulate = typename AccumulateType<T>::type;

}  // namespace minisp
