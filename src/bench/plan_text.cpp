// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace minisp::bench {

std::string bytes_text(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, units[unit]);
}

std::string extremes_text(const std::vector<double>& of_ranks, double whole) {
  const auto [least, most] = std::minmax_element(of_ranks.begin(), of_ranks.end());
  const auto text = [&](auto rank) {
    return fmt::format("{:.1f} % (rank {})", 100 * *rank / whole, rank - of_ranks.begin());
  };
  return text(least) + " to " + text(most);
}

std::string describe(const parallel::Plan& plan) {
  const auto& group = plan.groups.front();
  const int groups = plan.ranks / plan.sequence_degree;
  std::string text =
      fmt::format("{}: {} rank{}, ", config::to_string(plan.asked), plan.ranks, plan.ranks == 1 ? "" : "s");
  if (plan.asked != plan.system)
    text += fmt::format("more sequences than ranks, so it is {}; ", config::to_string(plan.system));
  text +=
      fmt::format("{} group{} of {}, {} sequence{} a group, {} tokens a rank", groups, groups == 1 ? "" : "s",
                  plan.sequence_degree, group.sequences(), group.sequences() == 1 ? "" : "s", plan.rows(0));
  if (plan.sequence_degree == 1) text += ", no all-to-all";
  return text;
}

std::string describe(const config::Config& config) {
  const auto& m = config.model;
  return fmt::format(
      "{}: {} parameters, {} layers, hidden {}, MLP {}, heads {}/{} of {}, vocabulary {}\n"
      "         {} sequences of {} tokens, {} micro-step{}, {}, {}",
      m.name, m.parameters(), m.layers, m.hidden, m.intermediate, m.heads, m.kv_heads, m.head_dim,
      m.vocabulary, config.train.batch, config.train.sequence_length, config.train.accumulation,
      config.train.accumulation == 1 ? "" : "s", config::to_string(config.train.precision),
      config::to_string(config.train.optimizer));
}

std::string describe(const train::MemoryPrediction& memory) {
  const auto line = [](const char* name, Index bytes, const char* formula) {
    return fmt::format("  {:<14} {:>12}  {}\n", name, bytes_text(static_cast<double>(bytes)), formula);
  };
  return line("weights", memory.weights, "e Psi") + line("gradients", memory.gradients, "e Psi") +
         line("optimizer", memory.optimizer, "AdamW: 2 e Psi") +
         line("activations", memory.saved, "kept for the backward pass, all layers (doc/algorithms.md)") +
         line("workspace", memory.workspace, "shared by the layers, one tile of the logits among it") +
         line("communication", memory.communication, "pieces of the gradient sum") +
         line("total", memory.total(), "");
}

}  // namespace minisp::bench
