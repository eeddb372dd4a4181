// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/batch_partition.hpp"

#include <stdexcept>

namespace minisp::parallel {

namespace {

/// starts[p] = position after the last end of a document before p, or 0.
void find_document_starts(std::span<const std::int32_t> inputs, std::int64_t end_of_document,
                          std::vector<int>& starts) {
  starts.resize(inputs.size());
  int start = 0;
  for (std::size_t p = 0; p < inputs.size(); ++p) {
    starts[p] = start;
    if (inputs[p] == end_of_document) start = static_cast<int>(p) + 1;
  }
}

}  // namespace

void partition_batch(const Plan& plan, int rank, std::span<const std::int32_t> rows,
                     std::int64_t end_of_document, LocalBatch& out) {
  const Group& group = plan.group(rank);
  const auto length = static_cast<std::size_t>(plan.sequence_length);
  const auto sequences = static_cast<std::size_t>(group.sequences());
  if (rows.size() != sequences * (length + 1))
    throw std::invalid_argument("partition_batch: one row of S + 1 tokens for each sequence of the group");

  out.document_starts.resize(sequences);
  for (std::size_t s = 0; s < sequences; ++s)
    find_document_starts(rows.subspan(s * (length + 1), length), end_of_document, out.document_starts[s]);

  out.tokens.clear();
  out.labels.clear();
  out.positions.clear();
  out.valid_tokens = 0;
  for (const auto& shard : plan.shards(rank)) {
    const auto s = static_cast<std::size_t>(shard.sequence - group.sequence_begin);
    const auto row = rows.subspan(s * (length + 1), length + 1);
    for (auto p = static_cast<std::size_t>(shard.begin); p < static_cast<std::size_t>(shard.end); ++p) {
      const bool ends_document = end_of_document >= 0 && row[p] == end_of_document;
      out.tokens.push_back(row[p]);
      out.labels.push_back(ends_document ? ignored_label : row[p + 1]);
      out.positions.push_back(static_cast<std::int32_t>(p) - out.document_starts[s][p]);
      if (!ends_document) ++out.valid_tokens;
    }
  }
}

}  // namespace minisp::parallel
