// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A training that is saved and goes on: bit for bit the same on the same ranks, and the same numbers under
// any other decomposition, sharding and number of ranks.
#include "io/seal.hpp"
#include "parallel/training_support.hpp"
#include "unit/io/scratch_folder.hpp"

#include <gtest/gtest.h>

namespace minisp::test {
namespace {

using config::Family;
using config::OptimizerKind;
using config::Sharding;

// As in test_sharding.cpp.
constexpr double sgd_tolerance = 1e-12, adamw_tolerance = 1e-11;
constexpr int steps = 4, saved_after = 2;

struct Trained {
  std::vector<double> losses, weights;

  bool operator==(const Trained&) const = default;
};

/// Steps [first, last) from `restart_from` (empty: from the beginning); the state at the end goes to
/// `save_to`.
template <class T>
Trained train(const comm::Communicator& world, MPI_Comm comm, const config::Config& config, int first,
              int last, const std::string& restart_from, const std::string& save_to) {
  const auto tokens = packed_tokens(config.model.vocabulary);
  Training<T> training(world, config, tokens);
  auto& trainer = training.trainer;
  if (!restart_from.empty()) {
    io::require_seal(world, restart_from, "");
    // What is not read must not happen to be right.
    for (const auto& state : trainer.states())
      for (const auto& part : state.parts) Kokkos::deep_copy(part.values, Accumulate<T>(1e30));
    train::load_states(trainer.layout(), trainer.states(), restart_from);
    const auto header = io::read_checkpoint_header(restart_from);
    EXPECT_EQ(header.steps_done, first);
    trainer.resume(header.steps_done);
  }
  Trained trained;
  for (int step = first; step < last; ++step) trained.losses.push_back(trainer.step().loss);
  EXPECT_EQ(trainer.steps_done(), last);
  for (const T value : host_copy(trainer.weights())) trained.weights.push_back(static_cast<double>(value));
  if (!save_to.empty()) trainer.save(comm, {last, {}, {}}, save_to);
  return trained;
}

struct Way {
  config::ParallelConfig parallel;
  std::string name;
};

/// Every sharding, under systems in turn that fit a batch of as many sequences as there are ranks.
std::vector<Way> ways(int ranks) {
  std::vector<config::ParallelConfig> systems{parallel::of(config::System::data_parallel),
                                              parallel::ulysses(ranks)};
  if (ranks % 2 == 0) systems.push_back(parallel::ulysses(2));
  std::vector<Way> all;
  for (const auto sharding :
       {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3, Sharding::mics}) {
    auto p = systems[all.size() % systems.size()];
    p.sharding = sharding;
    if (sharding == Sharding::mics) p.shard_ranks = ranks % 2 == 0 ? 2 : ranks;
    all.push_back(
        {p, fmt::format("{} under {} of {}", to_string(sharding), to_string(p.system), p.sequence_degree)});
  }
  return all;
}

config::Config config_of(const comm::Communicator& world, OptimizerKind optimizer) {
  // GPT-2 keeps its matrices transposed in files; the vocabulary divides by no number of ranks.
  const auto family = optimizer == OptimizerKind::sgd ? Family::gpt2 : Family::qwen3;
  auto config = training_config(small_model(family, 24, 24), world.size(), sequence_length);
  config.train.optimizer = optimizer;
  config.train.accumulation = 2;
  config.train.clip = 0.5;
  config.train.learning_rate = 1e-2;
  config.train.learning_rate_warmup = 3;  // a schedule under way
  config.train.dropout = 0.1;             // whose mask depends on the step
  config.data.end_of_document = 0;
  return config;
}

class RestartTest : public testing::TestWithParam<OptimizerKind> {};

TEST_P(RestartTest, GoesOnUnderEveryDecomposition) {
  const auto world = comm::Communicator::world();
  const auto self = comm::Communicator::self();
  const ScratchFolder folder;
  auto config = config_of(world, GetParam());
  const double tolerance = GetParam() == OptimizerKind::sgd ? sgd_tolerance : adamw_tolerance;
  const auto all = ways(world.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].name);
    const auto file = folder / fmt::format("a{}.h5", i), end = folder / "end.h5", again = folder / "again.h5";
    config.parallel = all[i].parallel;
    const auto whole = train<double>(world, MPI_COMM_WORLD, config, 0, steps, "", end);
    train<double>(world, MPI_COMM_WORLD, config, 0, saved_after, "", file);
    comm::barrier(world);
    auto rest = train<double>(world, MPI_COMM_WORLD, config, saved_after, steps, file, again);
    const std::vector<double> losses(whole.losses.begin() + saved_after, whole.losses.end());
    EXPECT_EQ(rest.losses, losses);
    EXPECT_EQ(rest.weights, whole.weights);
    comm::barrier(world);
    EXPECT_EQ(content_of(again), content_of(end)) << "moments and all";

    const auto expect_close = [&](const Trained& other, const std::string& how) {
      EXPECT_LT(error_of(other.losses, losses), tolerance) << how;
      EXPECT_LT(error_of(other.weights, whole.weights), tolerance) << how;
    };
    const auto& next = all[(i + 1) % all.size()];
    config.parallel = next.parallel;
    expect_close(train<double>(world, MPI_COMM_WORLD, config, saved_after, steps, file, ""), next.name);
    config.parallel = {};
    expect_close(train<double>(self, MPI_COMM_SELF, config, saved_after, steps, file, ""), "alone");
    comm::barrier(world);
  }
}

template <class T>
void expect_the_same_bits(OptimizerKind optimizer) {
  const auto world = comm::Communicator::world();
  const ScratchFolder folder;
  auto config = config_of(world, optimizer);
  config.parallel = parallel::of(config::System::data_parallel);
  config.parallel.sharding = Sharding::zero3;
  const auto whole = train<T>(world, MPI_COMM_WORLD, config, 0, steps, "", "");
  train<T>(world, MPI_COMM_WORLD, config, 0, saved_after, "", folder / "a.h5");
  comm::barrier(world);
  const auto rest = train<T>(world, MPI_COMM_WORLD, config, saved_after, steps, folder / "a.h5", "");
  EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + saved_after, whole.losses.end()));
  EXPECT_EQ(rest.weights, whole.weights);
}

TEST_P(RestartTest, BitEqualInFp32) {
  expect_the_same_bits<float>(GetParam());
}
/// The master weights are what is saved.
TEST_P(RestartTest, BitEqualInBf16) {
  expect_the_same_bits<bfloat16>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Optimizers, RestartTest, testing::Values(OptimizerKind::sgd, OptimizerKind::adamw),
                         [](const auto& test) { return test.param == OptimizerKind::sgd ? "sgd" : "adamw"; });

/// Names, shapes and order are those of Hugging Face, as they are in safetensors.
TEST(Checkpoint, ArraysAreThoseOfHuggingFace) {
  const auto world = comm::Communicator::world();
  const ScratchFolder folder;
  auto config = config_of(world, OptimizerKind::sgd);
  config.parallel = parallel::of(config::System::data_parallel);
  config.parallel.sharding = Sharding::zero3;
  const auto file = folder / "a.h5";
  const auto trained = train<double>(world, MPI_COMM_WORLD, config, 0, 1, "", file);
  comm::barrier(world);
  const model::ParameterLayout layout(config.model);
  const auto h5 = io::open_for_reading(file);
  EXPECT_EQ(io::list_datasets(h5.get(), "/weights").size(), layout.entries().size());
  const HostVector<const double> flat(trained.weights.data(), trained.weights.size());
  for (const auto& entry : layout.entries()) {
    EXPECT_EQ(io::shape_of(io::open_dataset(h5.get(), "/weights/" + entry.name).get()), entry.shape);
    EXPECT_EQ(io::read_doubles(h5.get(), "/weights/" + entry.name),
              model::to_hugging_face<double>(entry, flat))
        << entry.name;
  }
}

}  // namespace
}  // namespace minisp::test
