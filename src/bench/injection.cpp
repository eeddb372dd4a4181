// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/injection.hpp"

#include "parallel/parameter_store.hpp"
#include "parallel/ulysses_attend.hpp"
#include "util/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace minisp::bench {

namespace {

/// Phases with a collective in them.
constexpr std::array<std::string_view, 9> communicating{parallel::phase::exchange_qkv_forward,
                                                        parallel::phase::exchange_output_forward,
                                                        parallel::phase::exchange_output_backward,
                                                        parallel::phase::exchange_qkv_backward,
                                                        parallel::phase::gather_weights,
                                                        parallel::phase::reduce_gradients,
                                                        "gradient_norm",
                                                        "data",
                                                        "loss_reduction"};

void check_rank(std::int64_t rank, int ranks, const char* key) {
  if (rank >= ranks)
    throw input_error(fmt::format("there is no rank {}: the job has {}", rank, ranks), key,
                      fmt::format("Name one from 0 to {}", ranks - 1));
}

}  // namespace

std::string describe(const config::InjectConfig& inject) {
  std::string text;
  if (inject.slow_rank >= 0)
    text = fmt::format("rank {} computes {} times as long, and {} s more in each attention", inject.slow_rank,
                       inject.slow_factor, inject.slow_seconds);
  if (inject.link_rank >= 0)
    text += fmt::format("{}collectives with rank {} take {} s longer on the wire", text.empty() ? "" : "; ",
                        inject.link_rank, inject.link_seconds);
  return text;
}

void check_injection(const config::InjectConfig& inject, int ranks) {
  check_rank(inject.slow_rank, ranks, "inject.slow_rank");
  check_rank(inject.link_rank, ranks, "inject.link_rank");
}

PhaseTimers::Drag drag_of(const config::InjectConfig& inject, int rank) {
  if (inject.slow_rank != rank) return {};
  return [factor = inject.slow_factor, more = inject.slow_seconds](const std::string& phase, double seconds) {
    if (std::find(communicating.begin(), communicating.end(), phase) != communicating.end()) return 0.0;
    return (factor - 1) * seconds + (phase == parallel::phase::attention_forward ? more : 0.0);
  };
}

}  // namespace minisp::bench
