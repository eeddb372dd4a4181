// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Where tokens come from. A row is S + 1 tokens: inputs are its first S, labels its last S. Which rows a step
// takes depends on the step and the global batch alone, so every rank count trains on the same tokens.
#pragma once

#include "config/config.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace minisp::train {

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  /// out (S + 1 tokens) = row `global_row` >= 0. A pure function of the row; may be called by several
  /// threads at once. Throws Error (bad_input) where a file holds a token that the vocabulary does not.
  virtual void row(std::int64_t global_row, std::span<std::int32_t> out) const = 0;

  /// Smallest loss that any model can reach, in nats a valid token, where it is known.
  virtual std::optional<double> entropy_rate() const { return std::nullopt; }

  /// Rows before they repeat, where they do (files).
  virtual std::optional<std::int64_t> rows_per_epoch() const { return std::nullopt; }
};

/// The source that `config.data` describes, for rows of config.train.sequence_length + 1 tokens below
/// config.model.vocabulary. Throws Error (bad_input) where a file is missing, cut off or too short.
std::unique_ptr<TokenSource> make_token_source(const config::Config& config);

}  // namespace minisp::train
