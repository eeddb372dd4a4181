// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A language whose entropy is known exactly, so that a loss has a floor to be held against.
#pragma once

#include "train/token_source.hpp"

#include <vector>

namespace minisp::train {

/// A Markov chain over M = min(symbols, vocabulary) tokens, spread evenly over the vocabulary. With a random
/// permutation pi and n = branching, symbol s is followed by pi((s + j) mod M), j = 0..n-1, with probability
/// p_j = 2^-(j+1), the last two alike: n distinct successors, the same p for every s, every symbol equally
/// frequent in the long run. So each step has exactly the entropy
///   H(p) = (2 - 2^(2-n)) ln 2 nats.
/// With documents (end_of_document >= 0 and mean_document_length > 0) each token is followed by the end of
/// its document with probability e = 1 / mean_document_length instead, and a document begins with any symbol,
/// which is predicted from nothing and counts in no loss. A valid token then has
///   H = h(e) + (1 - e) H(p),  h(e) = -e ln e - (1 - e) ln(1 - e).
/// A row begins with a document of its own. Token i of a row takes one random block of (seed, row, i).
class SyntheticSource : public TokenSource {
 public:
  explicit SyntheticSource(const config::Config& config);

  void row(std::int64_t global_row, std::span<std::int32_t> out) const override;
  std::optional<double> entropy_rate() const override;

  /// Successors of `token` with their probabilities, end of document included; for tests and reports.
  struct Successor {
    std::int32_t token;
    double probability;
  };
  std::vector<Successor> successors(std::int32_t token) const;

 private:
  std::int32_t token_of(std::int64_t symbol) const;

  std::uint64_t seed_;
  std::int64_t usable_tokens_;  ///< vocabulary without the end of document
  std::int64_t end_of_document_ = -1;
  double end_probability_ = 0;
  int branching_;
  std::vector<std::int32_t> permutation_;  // (M)
};

}  // namespace minisp::train
