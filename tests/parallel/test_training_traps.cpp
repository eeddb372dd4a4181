// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What goes wrong where sequences are cut: labels, masks, leaks, and traffic on the wrong links.
#include "comm/all_reduce.hpp"
#include "comm/scalars.hpp"
#include "parallel/training_support.hpp"
#include "train/recorder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

namespace minisp::test {
namespace {

using comm::Communicator;
using config::Family;

Index heads_for(const Communicator& world) {
  return world.size() % 3 == 0 ? 6 : 8;
}

config::Config config_of(const Communicator& world, const Decomposition& d, Family family = Family::llama) {
  const Index heads = heads_for(world);
  auto config = training_config(small_model(family, heads, family == Family::gpt2 ? heads : heads / 2),
                                d.batch, sequence_length);
  config.parallel = d.parallel;
  return config;
}

std::vector<Decomposition> fitting(const Communicator& world) {
  std::vector<Decomposition> some;
  for (const auto& d : decompositions(world.size()))
    if (fits(d, world.size(), config_of(world, d).model)) some.push_back(d);
  return some;
}

/// The gradient of an untied head once more, from the logits, the hidden states and the tokens of the whole
/// batch: every token predicts the next one of its sequence, also across the edges of shards.
TEST(Labels, CrossTheEdgesOfShards) {
  const auto world = Communicator::world();
  for (const auto& d : fitting(world)) {
    const auto config = config_of(world, d);
    const Index v = config.model.vocabulary, h = config.model.hidden;
    // A token stands once in a row: what follows it tells where the label came from.
    const auto token = [](Index row, Index p) { return static_cast<std::int32_t>((p + 3 * row) % 29 + 1); };
    const TokensOf tokens(token);
    Training<double> training(world, config, tokens);
    train::Recorder<double> recorder(training.mesh, 1, [](const std::string& name) {
      return name == "logits" || name == "hidden_states/2";
    });
    training.trainer.observe(recorder.observer());
    const auto result = training.trainer.compute_gradients();
    EXPECT_EQ(result.valid_tokens, d.batch * sequence_length);
    const auto logits = recorder.gather("logits"), hidden = recorder.gather("hidden_states/2");

    std::vector<double> expected(static_cast<std::size_t>(v * h), 0.0);
    double loss = 0;
    const double scale = 1 / double(d.batch * sequence_length);
    for (Index r = 0; r < d.batch * sequence_length; ++r) {
      const double* l = logits.data() + r * v;
      const std::int32_t label = token(r / sequence_length, r % sequence_length + 1);
      double sum = 0;
      for (Index i = 0; i < v; ++i) sum += std::exp(l[i]);
      loss += scale * (std::log(sum) - l[label]);
      for (Index i = 0; i < v; ++i)
        for (Index j = 0; j < h; ++j)
          expected[static_cast<std::size_t>(i * h + j)] += scale *
                                                           (std::exp(l[i]) / sum - (i == label ? 1 : 0)) *
                                                           hidden[static_cast<std::size_t>(r * h + j)];
    }
    EXPECT_NEAR(result.loss, loss, 1e-13 * loss) << d.name();
    const auto* head = training.trainer.layout().find("lm_head.weight");
    const auto gradients = host_copy(training.trainer.gradients());
    EXPECT_LE(train::relative_error(gradients.data() + head->offset, expected.data(), v * h), 1e-13)
        << d.name();
  }
}

/// Rows of this rank whose hidden states changed though they may not, and of those that changed.
struct Reach {
  Index leaks = 0, changed = 0;
};

/// Changes the token at `position` of the first sequence of every group; sees(p): whether a token of that
/// sequence may notice.
template <class Sees>
Reach change_token(Training<double>& training, Index position, Sees sees) {
  auto& trainer = training.trainer;
  auto rows = trainer.group_rows(0);
  // forward() gives the trainer's own buffer: copies, not views.
  const auto copy = [](const Matrix<const double>& m) { return host_copy(m); };
  const auto before = copy(trainer.forward(rows));
  auto& token = rows[static_cast<std::size_t>(position)];
  token = token == 1 ? 2 : 1;
  const auto after = copy(trainer.forward(rows));
  const auto& mesh = training.mesh;
  const std::size_t width = before.size() / static_cast<std::size_t>(mesh.plan().rows(mesh.rank()));
  Reach reach;
  std::size_t row = 0;
  for (const auto& shard : mesh.plan().shards(mesh.rank()))
    for (Index p = shard.begin; p < shard.end; ++p, ++row) {
      const bool same =
          std::memcmp(before.data() + row * width, after.data() + row * width, width * sizeof(double)) == 0;
      const bool may = shard.sequence == mesh.group().sequence_begin && sees(p);
      if (!same) ++(may ? reach.changed : reach.leaks);
    }
  reach.changed = comm::sum(mesh.sequence(), reach.changed);
  return reach;
}

/// The ends of the sequence, and both sides of the first and of the last edge of a shard.
std::set<Index> edges(const parallel::Plan& plan) {
  const Index part = sequence_length / plan.sequence_degree;
  return {0, part - 1, part % sequence_length, sequence_length - part, sequence_length - 1};
}

TEST(Leaks, NoTokenSeesALaterOne) {
  const auto world = Communicator::world();
  for (const auto family : {Family::llama, Family::gpt2})
    for (const auto& d : fitting(world)) {
      const auto config = config_of(world, d, family);
      const auto tokens = plain_tokens(config.model.vocabulary);
      Training<double> training(world, config, tokens);
      for (const Index position : edges(training.mesh.plan())) {
        const auto reach = change_token(training, position, [&](Index p) { return p >= position; });
        EXPECT_EQ(reach.leaks, 0) << d.name() << ", token " << position;
        EXPECT_EQ(reach.changed, sequence_length - position);  // and every later one does see it
      }
    }
}

TEST(Leaks, NoDocumentSeesAnother) {
  const auto world = Communicator::world();
  for (const auto& d : fitting(world)) {
    auto config = config_of(world, d);
    config.data.end_of_document = 0;
    const Index k = plan_of(config, world.size()).sequence_degree, part = sequence_length / k;
    // The end of a document as the last token of the first shard, as the first of the second, and inside.
    for (const Index end : {part - 1, part % (sequence_length - 1), part / 2}) {
      const TokensOf tokens([&](Index row, Index p) { return p == end ? 0 : random_token(31, row, p); });
      Training<double> training(world, config, tokens);
      if (end > 0) {
        const auto first = change_token(training, end - 1, [&](Index p) { return p >= end - 1 && p <= end; });
        EXPECT_EQ(first.leaks, 0) << d.name() << ", end at " << end;
        EXPECT_EQ(first.changed, 2);
      }
      if (end + 1 < sequence_length) {
        const auto second = change_token(training, end + 1, [&](Index p) { return p > end; });
        EXPECT_EQ(second.leaks, 0) << d.name() << ", end at " << end;
        EXPECT_EQ(second.changed, sequence_length - end - 1);
      }
    }
  }
}

/// The rows of the last half of the batch predict nothing: whole groups have no valid token, and a rank of
/// the others none in its first shard.
TEST(Masks, AGroupAndAShardWithoutValidTokens) {
  const auto world = Communicator::world();
  const auto self = Communicator::self();
  for (const auto& d : fitting(world)) {
    auto config = config_of(world, d, Family::qwen3);
    config.data.end_of_document = 0;
    const Index first_masked = (d.batch + 1) / 2, part = sequence_length / 8;
    const TokensOf tokens([&](Index row, Index p) {
      return row % d.batch >= first_masked || p < part ? 0 : random_token(31, row, p);
    });
    const auto outcome = train_steps<double>(world, config, tokens, 3);
    for (const double g : outcome.gradients) ASSERT_TRUE(std::isfinite(g)) << d.name();
    EXPECT_EQ(outcome.ranks_that_differ, 0);
    auto alone = config;
    alone.parallel = {};
    const auto expected = train_steps<double>(self, alone, tokens, 3);
    EXPECT_LE(error_of(outcome.losses, expected.losses), 1e-12) << d.name();
    EXPECT_LE(error_of(outcome.gradients, expected.gradients), 1e-12) << d.name();
    EXPECT_LE(error_of(outcome.weights, expected.weights), 1e-12) << d.name();
  }
}

TEST(Masks, AStepWithoutAnyValidTokenChangesNothing) {
  const auto world = Communicator::world();
  auto config = config_of(world, {parallel::ulysses(world.size()), 2});
  config.data.end_of_document = 0;
  const TokensOf only_ends([](Index, Index) { return 0; });
  const auto outcome = train_steps<double>(world, config, only_ends, 2);
  EXPECT_EQ(outcome.losses, (std::vector<double>{0, 0}));
  for (const double g : outcome.gradients) EXPECT_EQ(g, 0);
}

Index off_node_bytes(const comm::Ledger& ledger) {
  Index bytes = 0;
  for (const auto& entry : ledger.entries())
    if (entry.collective == "all_to_all") bytes += entry.bytes_off_node;
  return bytes;
}

TEST(Traffic, EqualsTheFormulaAndNothingElse) {
  const auto world = Communicator::world();
  for (const auto& d : fitting(world)) {
    auto config = config_of(world, d);
    config.train.accumulation = 2;
    const auto tokens = plain_tokens(config.model.vocabulary);
    Training<float> training(world, config, tokens);
    world.ledger().reset();
    for (int step = 0; step < 2; ++step) training.trainer.step();
    EXPECT_EQ(parallel::compare(world.ledger(), training.trainer.expected_traffic(2)),
              std::vector<std::string>{})
        << d.name();
    if (world.size() == 1) continue;
    EXPECT_FALSE(parallel::compare(world.ledger(), training.trainer.expected_traffic(1)).empty());

    // The same sum over the group in place of all ranks, whatever it does to the numbers.
    if (training.mesh.sequence().size() == world.size()) continue;
    const Vector<float> few("test", 4);
    {
      const auto label = world.ledger().phase("gradients");
      comm::all_reduce_sum(training.mesh.sequence(), Exec(), few);
    }
    EXPECT_FALSE(parallel::compare(world.ledger(), training.trainer.expected_traffic(2)).empty()) << d.name();
  }
}

/// Where ranks sit decides which bytes leave a node and nothing else.
TEST(Traffic, PlacementOfRanksChangesTheTierAndNoBit) {
  const int ranks = Communicator::world().size();
  const int half = std::max(1, ranks / 2);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::vector<int> nodes = {0, rank / half, rank % half,
                                  ranks - 1 - rank};  // one; halves; dealt; own each
  for (const auto& d : fitting(Communicator::world())) {
    if (d.parallel.system == config::System::basp) continue;  // another name for plans that are here
    std::vector<std::vector<double>> weights;
    std::vector<Index> off_node;
    for (const int node : nodes) {
      const auto world = Communicator::world({.delays = {}, .node = node});
      const auto config = config_of(world, d);
      const auto tokens = plain_tokens(config.model.vocabulary);
      Training<double> training(world, config, tokens);
      world.ledger().reset();
      training.trainer.step();
      EXPECT_TRUE(parallel::compare(world.ledger(), training.trainer.expected_traffic(1)).empty())
          << d.name();
      off_node.push_back(comm::sum(world, off_node_bytes(world.ledger())));
      weights.push_back(host_copy(training.trainer.weights()));
    }
    for (const auto& w : weights) EXPECT_EQ(w, weights.front()) << d.name();
    const auto world = Communicator::world();
    const Index k = plan_of(config_of(world, d), ranks).sequence_degree;
    EXPECT_EQ(off_node[0], 0);
    if (k == 1) {
      EXPECT_EQ(off_node[3], 0);
      continue;
    }
    EXPECT_GT(off_node[3], 0);
    if (k < ranks &&
        half % k == 0) {  // groups fit into the halves of the ranks, and not into hands dealt round
      EXPECT_EQ(off_node[1], 0) << d.name();
      EXPECT_GT(off_node[2], 0) << d.name();
    }
  }
}

}  // namespace
}  // namespace minisp::test
