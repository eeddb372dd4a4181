// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A machine of round numbers and a small deck.
#pragma once

#include "config/deck.hpp"
#include "perfmodel/machine.hpp"
#include "perfmodel/predict.hpp"

namespace minisp::perfmodel {

/// Two ranks' worth of everything is easily worked out by hand.
inline Machine simple_machine() {
  Machine m;
  m.name = "simple";
  m.origin = "calibrated";
  m.ranks_per_node = 4;
  m.compute["fp32"]["default"] = {
      .seconds_per_call = 0.001, .flops_per_s = 2e9, .bytes_per_s = 1e9, .exponentials_per_s = no_limit};
  m.compute["fp32"]["mlp"] = {
      .seconds_per_call = 0, .flops_per_s = 4e9, .bytes_per_s = no_limit, .exponentials_per_s = no_limit};
  m.all_to_all = {0.01, 0.002, 0.003, 1e7, 1e6};
  m.all_gather = {0.02, 0.001, 0.002, 2e7, 2e6};
  m.skew = {0.0005, 0.1, 0};
  m.ranges["ranks"] = {2, 8};
  return m;
}

/// One layer, four tokens on each of eight ranks.
inline config::Config small_deck(const std::vector<std::string>& overrides = {}) {
  return config::parse_config(R"([model]
preset = "llama-3.2-1b"
hidden = 16
intermediate = 32
layers = 1
heads = 8
kv_heads = 4
head_dim = 2
vocabulary = 64
[data]
symbols = 64
[train]
batch = 2
sequence_length = 16
)",
                              "small.toml", overrides);
}

}  // namespace minisp::perfmodel
