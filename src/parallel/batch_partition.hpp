// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What a rank gets of a batch: its tokens, what they are to predict, their positions, and which part of its
// sequence each token may look back on. A pure function of the plan and the tokens.
#pragma once

#include "parallel/plan.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace minisp::parallel {

/// Label of a token that predicts nothing.
inline constexpr std::int32_t ignored_label = -100;

struct LocalBatch {
  std::vector<std::int32_t> tokens;  ///< (rows): in the order of the plan's shards
  std::vector<std::int32_t> labels;  ///< (rows): the next token of the sequence, or ignored_label
  std::vector<std::int32_t>
      positions;  ///< (rows): from the start of the sequence, or of the token's document
  /// (sequences of the group)(S): first position that the token at a position sees. The whole group's, since
  /// every rank of it computes attention (for some heads) of all its tokens.
  std::vector<std::vector<int>> document_starts;
  Index valid_tokens = 0;  ///< labels on this rank that are not ignored
};

/// `rows`: (sequences of the rank's group, S + 1), inputs are the first S tokens of a row and labels the last
/// S, so that the last token of a shard predicts the first of the next one. With end_of_document >= 0 that
/// token ends a document: positions restart after it, attention does not look back across it, and it predicts
/// nothing. `out` is overwritten and its memory reused.
void partition_batch(const Plan& plan, int rank, std::span<const std::int32_t> rows,
                     std::int64_t end_of_document, LocalBatch& out);

}  // namespace minisp::parallel
