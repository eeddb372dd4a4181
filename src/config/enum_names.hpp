// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The words that stand for enumerators in decks and reports, in the enumerators' order.
#pragma once

#include "config/config.hpp"

#include <array>
#include <span>

namespace minisp::config {

template <class E>
inline constexpr std::array<const char*, 0> enum_names{};
template <>
inline constexpr std::array enum_names<Family>{"llama", "qwen2", "qwen3", "gpt2"};
template <>
inline constexpr std::array enum_names<System>{"single", "data-parallel", "ulysses", "basp"};
template <>
inline constexpr std::array enum_names<Precision>{"fp64", "fp32", "bf16"};
template <>
inline constexpr std::array enum_names<GradientPrecision>{"model", "fp32"};
template <>
inline constexpr std::array enum_names<OptimizerKind>{"sgd", "adamw"};
template <>
inline constexpr std::array enum_names<Recompute>{"none", "selective", "full"};
template <>
inline constexpr std::array enum_names<Sharding>{"none", "zero1", "zero2", "zero3", "mics"};
template <>
inline constexpr std::array enum_names<DataSource>{"synthetic", "tokens", "text"};
template <>
inline constexpr std::array enum_names<TokenType>{"uint16", "uint32"};
template <>
inline constexpr std::array enum_names<ExportType>{"stored", "float32", "bfloat16"};

template <class E>
const char* name_of(E value) {
  static_assert(!enum_names<E>.empty(), "this enumeration has no names yet");
  return enum_names<E>[static_cast<std::size_t>(value)];
}

}  // namespace minisp::config
