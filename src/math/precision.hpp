// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Number types: what is stored and what is computed in. No kernel names a type of its own: it stores T and
// computes in Accumulate<T>.
#pragma once

#include "math/bfloat16.hpp"

#include <type_traits>

namespace minisp {

/// The type in which kernels over T compute and sum, and in which the master weights and optimizer states of
/// a model stored in T are held (Micikevicius et al., Mixed Precision Training, arXiv:1710.03740).
template <class T>
struct AccumulateType {
  using type = T;
};
template <>
struct AccumulateType<bfloat16> {
  using type = float;
};
template <class T>
using Accumulate = typename AccumulateType<T>::type;

/// A model stored in T computes in a wider type.
template <class T>
inline constexpr bool is_mixed = !std::is_same_v<T, Accumulate<T>>;

}  // namespace minisp
