// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Small models and plans for the tests of this folder.
#pragma once

#include "parallel/plan.hpp"

namespace minisp::parallel {

inline config::Architecture small_model(Index heads, Index kv_heads, Index head_dim = 4, Index layers = 1) {
  config::Architecture model;
  model.hidden = heads * head_dim;
  model.layers = layers;
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.head_dim = head_dim;
  return model;
}

inline config::ParallelConfig basp() {
  config::ParallelConfig config;
  config.system = config::System::basp;
  return config;
}

inline config::ParallelConfig ulysses(Index degree) {
  config::ParallelConfig config;
  config.system = config::System::ulysses;
  config.sequence_degree = degree;
  return config;
}

inline config::ParallelConfig of(config::System system) {
  config::ParallelConfig config;
  config.system = system;
  return config;
}

}  // namespace minisp::parallel
