// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/plan.hpp"
#include "parallel/plan_support.hpp"
#include "util/error.hpp"

#include <gtest/gtest.h>

#include <gmock/gmock.h>
#include <set>

namespace minisp::parallel {
namespace {

using config::System;
using testing::HasSubstr;

/// The message that make_plan refuses with.
std::string refusal(const config::ParallelConfig& config, int ranks, const config::Architecture& model,
                    Index batch, Index length) {
  try {
    make_plan(config, ranks, model, batch, length);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

/// Every token of every sequence lies on exactly one rank, every rank in one group.
void expect_partition(const Plan& plan) {
  std::set<int> ranks;
  std::vector<int> owners(static_cast<std::size_t>(plan.batch * plan.sequence_length), 0);
  for (const auto& group : plan.groups) {
    ASSERT_EQ(group.ranks.size(), group.shards.size());
    for (std::size_t i = 0; i < group.ranks.size(); ++i) {
      EXPECT_TRUE(ranks.insert(group.ranks[i]).second);
      for (const auto& shard : group.shards[i]) {
        EXPECT_GE(shard.sequence, group.sequence_begin);
        EXPECT_LT(shard.sequence, group.sequence_end);
        for (Index p = shard.begin; p < shard.end; ++p)
          ++owners.at(static_cast<std::size_t>(shard.sequence * plan.sequence_length + p));
      }
    }
  }
  EXPECT_EQ(ranks.size(), static_cast<std::size_t>(plan.ranks));
  for (const int count : owners) ASSERT_EQ(count, 1);
  for (int rank = 0; rank < plan.ranks; ++rank) {
    EXPECT_EQ(plan.rows(rank), plan.batch * plan.sequence_length / plan.ranks);
    EXPECT_EQ(plan.group(rank).ranks[static_cast<std::size_t>(plan.place_of(rank))], rank);
  }
}

TEST(Plan, EveryBatchOnEveryRankCountIsAPartitionOrRefused) {
  const auto model = small_model(24, 24);
  int made = 0, refused = 0;
  for (const int ranks : {1, 2, 3, 4, 6, 8})
    for (Index batch = 1; batch <= 16; ++batch) {
      const bool fits = batch <= ranks ? ranks % batch == 0 : batch % ranks == 0;
      if (!fits) {
        refusal(basp(), ranks, model, batch, 24);
        ++refused;
        continue;
      }
      const auto plan = make_plan(basp(), ranks, model, batch, 24);
      expect_partition(plan);
      EXPECT_EQ(plan.sequence_degree, batch <= ranks ? ranks / batch : 1);
      EXPECT_EQ(plan.system, batch <= ranks ? System::basp : System::data_parallel);
      EXPECT_EQ(plan.asked, System::basp);
      ++made;
    }
  EXPECT_GT(made, 30);
  EXPECT_GT(refused, 30);
}

TEST(Plan, BaspIsUlyssesOfDegreeNOverBWithOneSequenceAGroup) {
  const auto model = small_model(24, 24);
  for (const int ranks : {1, 2, 3, 4, 6, 8})
    for (Index batch = 1; batch <= ranks; ++batch) {
      if (ranks % batch != 0) continue;
      const auto a = make_plan(basp(), ranks, model, batch, 24);
      const auto b = make_plan(ulysses(ranks / batch), ranks, model, batch, 24);
      EXPECT_EQ(a.groups, b.groups) << ranks << " ranks, batch " << batch;
      EXPECT_EQ(a.sequence_degree, b.sequence_degree);
      for (const auto& group : a.groups) EXPECT_EQ(group.sequences(), 1);
    }
}

TEST(Plan, ShardsAreContiguousAndSequenceMajor) {
  const auto plan = make_plan(ulysses(2), 4, small_model(4, 2), 4, 6);
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[1].ranks, (std::vector<int>{2, 3}));
  EXPECT_EQ(plan.shards(3), (std::vector<Shard>{{2, 3, 6}, {3, 3, 6}}));
  EXPECT_EQ(plan.rows(3), 6);
}

TEST(Plan, UlyssesTakesAllRanksUnlessTold) {
  EXPECT_EQ(make_plan(ulysses(0), 4, small_model(4, 2), 3, 8).sequence_degree, 4);
  EXPECT_EQ(make_plan(ulysses(0), 4, small_model(4, 2), 3, 8).groups.size(), 1u);
  EXPECT_EQ(make_plan(ulysses(1), 4, small_model(3, 3), 4, 7).sequence_degree, 1);
}

TEST(Plan, DataParallelSplitsNoSequence) {
  const auto plan = make_plan(of(System::data_parallel), 3, small_model(7, 7), 6, 5);
  expect_partition(plan);
  EXPECT_EQ(plan.sequence_degree, 1);
  EXPECT_EQ(plan.groups[2].sequences(), 2);
}

TEST(Refusal, SingleOnSeveralRanks) {
  EXPECT_THAT(refusal(of(System::single), 4, small_model(4, 4), 4, 8),
              testing::AllOf(HasSubstr("single"), HasSubstr("4 ranks"), HasSubstr("data-parallel")));
}

TEST(Refusal, BatchThatDataParallelCannotShare) {
  EXPECT_THAT(
      refusal(of(System::data_parallel), 4, small_model(4, 4), 6, 8),
      testing::AllOf(HasSubstr("train.batch = 6"), HasSubstr("4 or 8"), HasSubstr("1, 2, 3, 6 ranks")));
  EXPECT_THAT(refusal(of(System::data_parallel), 4, small_model(4, 4), 2, 8),
              HasSubstr("A batch of 4 would"));
}

TEST(Refusal, DegreeThatDoesNotDivideTheRanks) {
  EXPECT_THAT(refusal(ulysses(4), 6, small_model(12, 12), 6, 24),
              testing::AllOf(HasSubstr("parallel.sequence_degree = 4"), HasSubstr("6 ranks"),
                             HasSubstr("can be 1, 2, 3, 6")));
}

TEST(Refusal, BatchThatUlyssesGroupsCannotShare) {
  EXPECT_THAT(refusal(ulysses(2), 8, small_model(8, 8), 6, 24),
              testing::AllOf(HasSubstr("train.batch = 6"), HasSubstr("4 groups"), HasSubstr("4 or 8"),
                             HasSubstr("can be 4, 8")));
}

TEST(Refusal, LengthThatTheGroupCannotShare) {
  EXPECT_THAT(
      refusal(ulysses(0), 4, small_model(4, 4), 2, 10),
      testing::AllOf(HasSubstr("train.sequence_length = 10"), HasSubstr("8 or 12"), HasSubstr("can be 2")));
  EXPECT_THAT(refusal(basp(), 8, small_model(8, 8), 2, 3),  // fewer tokens than ranks
              testing::AllOf(HasSubstr("train.sequence_length = 3"), HasSubstr("4 would fit"),
                             HasSubstr("train.batch can be 8 or a multiple of 8")));
}

TEST(Refusal, HeadsThatTheGroupCannotShare) {
  EXPECT_THAT(
      refusal(ulysses(0), 16, small_model(24, 8), 2, 32),
      testing::AllOf(HasSubstr("model.heads = 24"), HasSubstr("16 or 32"), HasSubstr("degree can be 8")));
  EXPECT_THAT(refusal(basp(), 4, small_model(7, 7), 1, 32),
              testing::AllOf(HasSubstr("model.heads = 7"), HasSubstr("train.batch can be 4 or")));
  EXPECT_THAT(refusal(ulysses(0), 4, small_model(7, 7), 1, 32), HasSubstr("no sequence degree fits"));
}

TEST(Refusal, KeyValueHeadsThatNeitherDivideNorAreDivided) {
  EXPECT_THAT(refusal(ulysses(0), 2, small_model(6, 3), 2, 8),
              testing::AllOf(HasSubstr("model.kv_heads = 3"), HasSubstr("1, 2 or a multiple of 2")));
  EXPECT_NO_THROW(make_plan(ulysses(0), 6, small_model(6, 3), 2, 12));  // replicated twice
}

TEST(Refusal, BaspBatches) {
  EXPECT_THAT(
      refusal(basp(), 8, small_model(8, 8), 3, 24),
      testing::AllOf(HasSubstr("train.batch = 3"), HasSubstr("8 ranks"), HasSubstr("can be 1, 2, 4, 8")));
  EXPECT_THAT(refusal(basp(), 4, small_model(8, 8), 6, 24), HasSubstr("train.batch = 6"));
  auto config = basp();
  config.sequence_degree = 2;
  EXPECT_THAT(refusal(config, 8, small_model(8, 8), 2, 24),
              testing::AllOf(HasSubstr("parallel.sequence_degree = 2"), HasSubstr("make it 4")));
  config.sequence_degree = 4;
  EXPECT_EQ(make_plan(config, 8, small_model(8, 8), 2, 24).sequence_degree, 4);
}

TEST(Outline, IsThePlanWithItsFirstGroupAlone) {
  auto config = basp();
  config.sharding = config::Sharding::mics;
  auto plan = make_plan(config, 12, small_model(12, 12), 3, 24);
  const auto outline = make_plan_outline(config, 12, small_model(12, 12), 3, 24);
  ASSERT_EQ(outline.groups.size(), 1U);
  EXPECT_EQ(outline.groups.front(), plan.groups.front());
  EXPECT_EQ(outline.sequence_degree, plan.sequence_degree);
  EXPECT_EQ(outline.shard_ranks, plan.shard_ranks);
  EXPECT_EQ(outline.ranks, 12);
}

TEST(Refusal, DegreeWhereNoSequenceIsSplit) {
  for (const auto system : {System::single, System::data_parallel}) {
    auto config = of(system);
    config.sequence_degree = 2;
    EXPECT_THAT(refusal(config, 1, small_model(4, 4), 2, 8), HasSubstr("parallel.sequence_degree = 2"));
  }
}

TEST(Refusal, NothingToDo) {
  EXPECT_THAT(refusal(basp(), 4, small_model(4, 4), 0, 8), HasSubstr("train.batch = 0"));
  EXPECT_THAT(refusal(basp(), 4, small_model(4, 4), 4, 0), HasSubstr("train.sequence_length = 0"));
  EXPECT_THAT(refusal(ulysses(-1), 4, small_model(4, 4), 4, 8), HasSubstr("parallel.sequence_degree = -1"));
}

TEST(Refusal, MoreAttentionRowsThanAnIntCounts) {
  EXPECT_THAT(refusal(of(System::single), 1, small_model(4, 4), 3, Index{1} << 30), HasSubstr("2147483647"));
  EXPECT_NO_THROW(make_plan(of(System::single), 1, small_model(4, 4), 1, (Index{1} << 31) - 1));
}

}  // namespace
}  // namespace minisp::parallel
