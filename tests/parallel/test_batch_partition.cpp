// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/batch_partition.hpp"
#include "parallel/plan_support.hpp"

#include <gtest/gtest.h>

namespace minisp::parallel {
namespace {

constexpr Index batch = 4, length = 24;
constexpr std::int64_t none = -1, end = 0;

/// Distinct tokens, so that a token tells where it stood; some documents end on a shard's last token, on its
/// first, and twice in a row.
std::vector<std::int32_t> tokens_of(Index sequence) {
  std::vector<std::int32_t> row(length + 1);
  for (Index p = 0; p <= length; ++p)
    row[static_cast<std::size_t>(p)] = static_cast<std::int32_t>(1 + 100 * sequence + p);
  return row;
}

std::vector<std::int32_t> rows_of_group(const Group& group, const std::vector<Index>& ends = {}) {
  std::vector<std::int32_t> rows;
  for (Index s = group.sequence_begin; s < group.sequence_end; ++s) {
    auto row = tokens_of(s);
    for (const Index p : ends) row[static_cast<std::size_t>((p + s) % length)] = end;
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

TEST(BatchPartition, LabelsCrossShardBoundaries) {
  const auto plan = make_plan(ulysses(4), 8, small_model(4, 4), batch, length);
  for (int rank = 0; rank < 8; ++rank) {
    LocalBatch local;
    partition_batch(plan, rank, rows_of_group(plan.group(rank)), none, local);
    ASSERT_EQ(local.tokens.size(), 12u);
    EXPECT_EQ(local.valid_tokens, 12);
    std::size_t i = 0;
    for (const auto& shard : plan.shards(rank))
      for (Index p = shard.begin; p < shard.end; ++p, ++i) {
        const auto row = tokens_of(shard.sequence);
        EXPECT_EQ(local.tokens[i], row[static_cast<std::size_t>(p)]);
        EXPECT_EQ(local.labels[i], row[static_cast<std::size_t>(p + 1)]);  // also for the shard's last token
        EXPECT_EQ(local.positions[i], p);                                  // absolute
      }
  }
}

/// What a rank gets under packing is the same part of what one rank gets alone.
TEST(BatchPartition, EveryPlanGivesTheTokensOfOneRank) {
  // 0: on its first token; 5, 6: after one token; 11, 12: on both sides of a shard's edge; 23: its last
  // token.
  const std::vector<Index> ends = {0, 5, 6, 11, 12, 17, 23};
  const auto alone_plan = make_plan(of(config::System::single), 1, small_model(24, 24), batch, length);
  LocalBatch alone;
  partition_batch(alone_plan, 0, rows_of_group(alone_plan.groups[0], ends), end, alone);
  const std::pair<int, int> ranks_and_degrees[] = {{1, 1}, {4, 1}, {2, 2}, {8, 2}, {3, 3}, {8, 4}, {8, 8}};
  for (const auto& [ranks, degree] : ranks_and_degrees) {
    const auto plan = make_plan(ulysses(degree), ranks, small_model(24, 24), batch, length);
    Index valid = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      LocalBatch local;
      const auto& group = plan.group(rank);
      partition_batch(plan, rank, rows_of_group(group, ends), end, local);
      valid += local.valid_tokens;
      std::size_t i = 0;
      for (const auto& shard : plan.shards(rank))
        for (Index p = shard.begin; p < shard.end; ++p, ++i) {
          const auto global = static_cast<std::size_t>(shard.sequence * length + p);
          EXPECT_EQ(local.tokens[i], alone.tokens[global]);
          EXPECT_EQ(local.labels[i], alone.labels[global]);
          EXPECT_EQ(local.positions[i], alone.positions[global]);
        }
      for (Index s = 0; s < group.sequences(); ++s)
        EXPECT_EQ(local.document_starts[static_cast<std::size_t>(s)],
                  alone.document_starts[static_cast<std::size_t>(group.sequence_begin + s)]);
    }
    Index expected = 0;
    for (Index i = 0; i < plan.batch * length; ++i)
      expected += alone.labels[static_cast<std::size_t>(i)] != ignored_label;
    EXPECT_EQ(valid, expected);
  }
}

TEST(BatchPartition, DocumentsRestartAfterTheirEnd) {
  const auto plan = make_plan(of(config::System::single), 1, small_model(4, 4), 1, 8);
  const std::vector<std::int32_t> row = {5, end, 6, 7, end, end, 8, 9, end};  // S + 1
  LocalBatch local;
  partition_batch(plan, 0, row, end, local);
  EXPECT_EQ(local.tokens, (std::vector<std::int32_t>{5, end, 6, 7, end, end, 8, 9}));
  EXPECT_EQ(local.labels, (std::vector<std::int32_t>{end, -100, 7, end, -100, -100, 9, end}));
  EXPECT_EQ(local.positions, (std::vector<std::int32_t>{0, 1, 0, 1, 2, 0, 0, 1}));
  EXPECT_EQ(local.document_starts[0], (std::vector<int>{0, 0, 2, 2, 2, 5, 6, 6}));
  EXPECT_EQ(local.valid_tokens, 5);
  partition_batch(plan, 0, row, none, local);  // the buffers are reused; the same tokens end nothing
  EXPECT_EQ(local.positions, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(local.valid_tokens, 8);
}

TEST(BatchPartition, ARankMayHaveNoValidToken) {
  const auto plan = make_plan(ulysses(2), 2, small_model(2, 2), 1, 4);
  const std::vector<std::int32_t> row = {3, 4, end, end, 5};
  LocalBatch local;
  partition_batch(plan, 1, row, end, local);
  EXPECT_EQ(local.valid_tokens, 0);
  EXPECT_EQ(local.labels, (std::vector<std::int32_t>{-100, -100}));
}

TEST(BatchPartition, RowsOfTheWrongLengthAreRefused) {
  const auto plan = make_plan(ulysses(2), 2, small_model(2, 2), 1, 4);
  LocalBatch local;
  EXPECT_THROW(partition_batch(plan, 0, std::vector<std::int32_t>(4), none, local), std::invalid_argument);
}

}  // namespace
}  // namespace minisp::parallel
