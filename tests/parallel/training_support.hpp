// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Decompositions of a small model's training on the ranks of a test, and what a training leaves behind.
#pragma once

#include "parallel/plan_support.hpp"
#include "support/training.hpp"
#include "train/self_check.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace minisp::test {

inline constexpr Index sequence_length = 24;  // shared evenly by 1, 2, 3, 4, 6 and 8 ranks

struct Decomposition {
  config::ParallelConfig parallel;
  Index batch;

  std::string name() const {
    return fmt::format("{} of degree {}, batch {}", to_string(parallel.system), parallel.sequence_degree,
                       batch);
  }
};

/// Every system that N ranks can have, with every degree; Ulysses with two sequences a group.
inline std::vector<Decomposition> decompositions(int ranks) {
  const Index n = ranks;
  std::vector<Decomposition> all = {{parallel::of(config::System::data_parallel), 2 * n},
                                    {parallel::basp(), 2 * n}};
  if (n == 1) all.push_back({parallel::of(config::System::single), 2});
  for (Index k = 1; k <= n; ++k) {
    if (n % k != 0) continue;
    all.push_back({parallel::ulysses(k), 2 * n / k});
    all.push_back({parallel::basp(), n / k});
  }
  return all;
}

/// Whether the heads can be shared by the decomposition's groups; all other sizes can.
inline bool fits(const Decomposition& d, int ranks, const config::Architecture& a) {
  Index k = 1;
  if (d.parallel.system == config::System::ulysses) k = d.parallel.sequence_degree;
  if (d.parallel.system == config::System::basp && d.batch < ranks) k = ranks / d.batch;
  return a.heads % k == 0 && (a.kv_heads % k == 0 || k % a.kv_heads == 0);
}

/// Documents of other lengths in every row, whose ends lie inside, before and behind the edges of shards; so
/// every rank has another number of valid tokens.
inline TokensOf packed_tokens(Index vocabulary) {
  return TokensOf([=](Index row, Index p) {
    const Index length = 3 + row % 4;
    return p % length == length - 1 ? 0 : random_token(vocabulary, row, p);
  });
}
inline TokensOf plain_tokens(Index vocabulary) {
  return TokensOf([=](Index row, Index p) { return random_token(vocabulary, row, p); });
}

/// What some steps of training come to, on this rank.
template <class T>
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<Accumulate<T>> gradients;  ///< of the first step
  std::vector<T> weights;                ///< after the last
  Index ranks_that_differ = 0;           ///< in gradients, weights, losses or norms

  bool operator==(const Outcome&) const = default;
};

template <class T>
Outcome<T> train_steps(const comm::Communicator& world, const config::Config& config,
                       const train::TokenSource& tokens, int steps) {
  Training<T> training(world, config, tokens);
  auto& trainer = training.trainer;
  shake(trainer.weights(), 0.1);
  Outcome<T> outcome;
  for (int step = 0; step < steps; ++step) {
    const auto result = trainer.step();
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.gradient_norm);
    if (step > 0) continue;
    outcome.gradients = host_copy(trainer.gradients());
    outcome.ranks_that_differ += train::ranks_that_differ<Accumulate<T>>(world, trainer.gradients());
  }
  outcome.weights = host_copy(trainer.weights());
  outcome.ranks_that_differ += train::ranks_that_differ<T>(world, trainer.weights());
  Vector<double> numbers("test", 2 * steps);
  const auto host = Kokkos::create_mirror_view(numbers);
  for (int step = 0; step < steps; ++step) {
    host(2 * step) = outcome.losses[static_cast<std::size_t>(step)];
    host(2 * step + 1) = outcome.norms[static_cast<std::size_t>(step)];
  }
  Kokkos::deep_copy(numbers, host);
  outcome.ranks_that_differ += train::ranks_that_differ<double>(world, numbers);
  return outcome;
}

inline double error_of(const std::vector<double>& a, const std::vector<double>& b) {
  return train::relative_error(a.data(), b.data(), static_cast<Index>(b.size()));
}

}  // namespace minisp::test
