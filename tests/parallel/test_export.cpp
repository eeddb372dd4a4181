// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Exported folders: the numbers are the trainer's, and the bytes the same whoever held them.
#include "config/hugging_face.hpp"
#include "io/safetensors.hpp"
#include "parallel/training_support.hpp"
#include "support/error_of.hpp"
#include "train/export.hpp"
#include "unit/io/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <gmock/gmock.h>
#include <sys/resource.h>

namespace minisp::test {
namespace {

using config::ExportType;
using config::Family;
using config::Sharding;
using testing::AllOf;
using testing::HasSubstr;

template <class T>
void export_to(const std::string& folder, const config::Config& config, const Training<T>& training) {
  auto wanted = config;
  wanted.export_to.folder = folder;
  train::export_weights<T>(wanted, training.mesh, training.trainer.layout(), training.trainer.pieces());
}

/// A model with no neutral number in it, exported by rank 0 alone; collective. Its values in Hugging Face
/// order.
template <class T>
std::vector<std::vector<double>> export_alone(const std::string& folder, const config::Config& config) {
  std::vector<std::vector<double>> tensors;
  if (comm::Communicator::world().rank() == 0) {
    const auto self = comm::Communicator::self();
    const auto tokens = plain_tokens(config.model.vocabulary);
    const Training<T> training(self, config, tokens);
    shake(training.trainer.weights(), 0.1);
    export_to(folder, config, training);
    const auto flat = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), training.trainer.weights());
    for (const auto& entry : training.trainer.layout().entries())
      tensors.push_back(model::to_hugging_face<T>(entry, flat));
  }
  comm::barrier(comm::Communicator::world());
  return tensors;
}

config::Architecture model_of(Family family) {
  auto model = family == Family::gpt2 ? small_model(family, 4, 4) : small_model(family, 24, 24);
  if (family == Family::gpt2) model.head_dim = model.hidden / model.heads;
  return model;
}

class Export : public testing::TestWithParam<Family> {};

TEST_P(Export, HoldsTheTrainersNumbers) {
  const ScratchFolder scratch;
  for (const auto type : {ExportType::stored, ExportType::float32, ExportType::bfloat16}) {
    auto config = training_config(model_of(GetParam()), 1, sequence_length);
    config.train.precision = config::Precision::fp64;
    config.export_to.type = type;
    const std::string folder = scratch / to_string(type);
    const auto expected = export_alone<double>(folder, config);
    if (expected.empty()) continue;  // the other ranks
    const io::SafetensorsFolder file(folder);
    const model::ParameterLayout layout(config.model);
    ASSERT_EQ(file.names().size(), layout.entries().size());
    for (std::size_t t = 0; t < layout.entries().size(); ++t) {
      const auto& entry = layout.entries()[t];
      EXPECT_EQ(file.shape(entry.name), entry.shape);
      auto values = expected[t];
      if (type != ExportType::stored)
        for (double& value : values)
          value = static_cast<double>(type == ExportType::float32
                                          ? static_cast<float>(value)
                                          : io::float_from_bfloat16(io::bfloat16_from(value)));
      EXPECT_EQ(file.read(entry.name), values) << entry.name;
    }
    auto architecture = config::read_hugging_face_config(folder).architecture;
    architecture.name = config.model.name;
    EXPECT_EQ(architecture, config.model);
  }
}

/// Read from a folder under a decomposition and written again: byte by byte what one rank wrote.
template <class T>
void expect_same_bytes(Family family, config::Precision precision) {
  const auto world = comm::Communicator::world();
  const ScratchFolder scratch;
  auto config = training_config(model_of(family), 1, sequence_length);
  config.train.precision = precision;
  export_alone<T>(scratch / "alone", config);
  config.random_weights = false;
  config.model_folder = scratch / "alone";
  const auto tokens = plain_tokens(config.model.vocabulary);
  const Index n = world.size();
  int count = 0;
  for (const Decomposition& d : {Decomposition{parallel::of(config::System::data_parallel), n},
                                 Decomposition{parallel::basp(), n % 2 == 0 ? n / 2 : n}}) {
    if (!fits(d, world.size(), config.model)) continue;
    config.parallel = d.parallel;
    config.train.batch = d.batch;
    const auto expect_same = [&](Sharding sharding, Index shard_ranks) {
      config.parallel.sharding = sharding;
      config.parallel.shard_ranks = shard_ranks;
      const Training<T> training(world, config, tokens);
      const std::string folder = scratch / std::to_string(count++);
      export_to(folder, config, training);
      comm::barrier(world);
      for (const char* file : {"/model.safetensors", "/config.json"})
        EXPECT_TRUE(content_of(folder + file) == content_of(scratch / "alone" + file))
            << file << ", " << d.name() << ", " << to_string(sharding) << " of " << shard_ranks;
      EXPECT_FALSE(std::filesystem::exists(folder + "/model.safetensors.partial"));
    };
    for (const auto sharding : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
      expect_same(sharding, 0);
    for (Index p = 1; p <= n; ++p)
      if (n % p == 0) expect_same(Sharding::mics, p);
  }
}

TEST_P(Export, BytesDoNotDependOnTheDecomposition) {
  expect_same_bytes<double>(GetParam(), config::Precision::fp64);
  if (GetParam() == Family::gpt2) expect_same_bytes<float>(GetParam(), config::Precision::fp32);
}

INSTANTIATE_TEST_SUITE_P(Families, Export,
                         testing::Values(Family::llama, Family::qwen2, Family::qwen3, Family::gpt2),
                         [](const auto& family) { return config::to_string(family.param); });

/// A model that appears while the run goes on is not overwritten, and what was trained is not lost.
TEST(Export, NothingIsLost) {
  const ScratchFolder scratch;
  const auto world = comm::Communicator::world();
  auto config = training_config(model_of(Family::llama), world.size(), sequence_length);
  config.parallel = parallel::of(config::System::data_parallel);
  const auto tokens = plain_tokens(config.model.vocabulary);
  const Training<float> training(world, config, tokens);
  const std::string folder = scratch / "model", there = folder + "/config.json";
  std::filesystem::create_directories(folder);
  if (world.rank() == 0) write_file(there, "mine");
  comm::barrier(world);
  EXPECT_THAT(error_of([&] { export_to(folder, config, training); }), HasSubstr("has appeared"));
  comm::barrier(world);
  EXPECT_EQ(content_of(there), "mine");
  EXPECT_FALSE(std::filesystem::exists(folder + "/model.safetensors"));
  const auto kept = content_of(folder + "/model.safetensors.partial");
  comm::barrier(world);
  config.export_to.overwrite = true;
  export_to(folder, config, training);
  comm::barrier(world);
  EXPECT_NE(content_of(there), "mine");
  EXPECT_TRUE(content_of(folder + "/model.safetensors") == kept);
  EXPECT_FALSE(std::filesystem::exists(there + ".partial"));
}

/// A process that writes beyond its limit would be killed without a word.
TEST(Export, ALimitOnFileSizesIsAnError) {
  const ScratchFolder scratch;
  const auto world = comm::Communicator::world();
  auto config = training_config(model_of(Family::llama), world.size(), sequence_length);
  config.parallel = parallel::of(config::System::data_parallel);
  const auto tokens = plain_tokens(config.model.vocabulary);
  const Training<float> training(world, config, tokens);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limited{10000, before.rlim_max};
  std::string message;
  if (world.rank() == 0) setrlimit(RLIMIT_FSIZE, &limited);  // one rank's error is every rank's
  try {
    export_to(scratch / "model", config, training);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_TRUE(error.agreed());
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, AllOf(HasSubstr("model.safetensors: no room"), HasSubstr("export.folder")));
  comm::barrier(world);
  EXPECT_FALSE(std::filesystem::exists(scratch / "model"));
}

TEST(Export, FoldersAreCheckedBeforeTheRun) {
  const ScratchFolder scratch;
  const auto fault = [&](const std::string& folder, bool overwrite = false) {
    return error_of([&] { train::check_export_folder({folder, overwrite, ExportType::stored}); });
  };
  if (comm::Communicator::world().rank() != 0) return;
  const auto accept = [&](const std::string& folder, bool overwrite = false) {
    EXPECT_NO_THROW(train::check_export_folder({folder, overwrite, ExportType::stored})) << folder;
  };
  accept(scratch / "new");
  accept(scratch / "new/");
  EXPECT_FALSE(std::filesystem::exists(scratch / "new"));
  EXPECT_THAT(fault(scratch / "no/new"), HasSubstr("/no does not exist"));
  accept(scratch.path());  // a folder with other things in it
  for (const char* name : {"model.safetensors.index.json", "config.json", "model.safetensors"}) {
    write_file(scratch / name, "");
    EXPECT_THAT(fault(scratch.path()), HasSubstr(std::string(name) + ": exists already"));
    accept(scratch.path(), true);
    std::filesystem::remove(scratch / name);
  }
  write_file(scratch / "file", "");
  EXPECT_THAT(fault(scratch / "file", true), HasSubstr("is no folder"));
  EXPECT_THAT(fault(scratch / "file/x", true), HasSubstr("/file does not exist"));
}

}  // namespace
}  // namespace minisp::test
