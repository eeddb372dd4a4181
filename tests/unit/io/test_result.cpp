// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "unit/io/sample_result.hpp"
#include "unit/io/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <gmock/gmock.h>

namespace minisp::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Provenance, NothingIsEmpty) {
  setenv("OMP_SCHEDULE", "static", 1);
  setenv("SLURM_JOB_ID", "4711", 1);
  setenv("SLURM_JWT", "a secret", 1);
  const auto p = gather_provenance(MPI_COMM_WORLD, {"minisp", "run", "it's"});
  for (const auto& [name, value] : rows_of(p)) EXPECT_FALSE(value.empty()) << name;
  EXPECT_THAT(p.kokkos_configuration, HasSubstr("Kokkos"));
  EXPECT_THAT(p.date, testing::MatchesRegex("....-..-..T..:..:..[+-]...."));
  EXPECT_EQ(p.command_line, "minisp run 'it'\\''s'");
  EXPECT_EQ(p.hosts.size(), 1u);
  EXPECT_EQ(p.nodes, 1);
  EXPECT_GE(p.threads, 1);
  EXPECT_THAT(p.environment,
              testing::Contains(std::pair<std::string, std::string>("OMP_SCHEDULE", "static")));
  EXPECT_THAT(p.environment, testing::Contains(std::pair<std::string, std::string>("SLURM_JOB_ID", "4711")));
  for (const auto& [name, value] : p.environment) EXPECT_NE(value, "a secret") << name;
}

TEST(Result, EverythingIsStoredWithUnits) {
  const test::ScratchFolder folder;
  const auto path = folder / "a.h5";
  auto sample = test::make_sample();
  sample.result.verdict = {false, {"the loss is NaN"}, {{"loss", 2, 1, false}}};
  test::write_sample(sample, path);

  const auto file = open_for_reading(path);
  const hid_t f = file.get();
  EXPECT_EQ(read_attribute<std::string>(f, "format"), result_format_name);
  EXPECT_EQ(read_attribute<std::int64_t>(f, "format_version"), result_format_version);
  EXPECT_EQ(read_attribute<std::string>(f, "precision"), "fp64");
  for (const auto* name : {"software", "softwareVersion", "softwareDependencies", "date", "machine"})
    EXPECT_FALSE(read_attribute<std::string>(f, name).empty()) << name;
  EXPECT_THAT(read_attribute<std::string>(f, "date"), testing::MatchesRegex("....-..-.. ..:..:.. [+-]...."));
  EXPECT_EQ(read_text(f, "/provenance/command_line"), "minisp run 'a deck.toml'");
  EXPECT_EQ(read_texts(f, "/provenance/hosts"), sample.result.provenance.hosts);
  EXPECT_EQ(read_attribute<std::int64_t>(open_group(f, "/provenance").get(), "ranks"), 1);

  EXPECT_EQ(read_text(f, "/input/deck"), sample.result.input.deck_text);
  EXPECT_THAT(read_texts(f, "/input/overrides"), ElementsAre("train.steps=2"));
  EXPECT_EQ(read_attribute<std::string>(open_group(f, "/input/settings").get(), "model.layers"), "2");

  EXPECT_THAT(read_doubles(f, "/metrics/loss"), ElementsAre(4.5, 4.25));
  EXPECT_THAT(read_integers(f, "/metrics/step"), ElementsAre(0, 1));
  EXPECT_EQ(read_attribute<double>(open_group(f, "/metrics").get(), "entropy_rate"), 1.25);
  EXPECT_THAT(read_doubles(f, "/timers/attention/min"), ElementsAre(1));
  EXPECT_THAT(read_doubles(f, "/timers/attention/max"), ElementsAre(3));
  EXPECT_THAT(read_doubles(f, "/timers/attention/mean"), ElementsAre(2));
  EXPECT_THAT(read_doubles(f, "/timers/all_to_all/forward/per_rank"), ElementsAre(0.5, 0.25));
  EXPECT_THAT(read_integers(f, "/comm/all_to_all/attention/bytes_off_node"), ElementsAre(0, 50));
  EXPECT_THAT(read_integers(f, "/comm/all_to_all/attention/expected_bytes"), ElementsAre(100, 100));
  EXPECT_THAT(read_doubles(f, "/comm/all_to_all/attention/seconds"), ElementsAre(0.1, 0.2));
  EXPECT_THAT(read_doubles(f, "/comm/all_to_all/attention/own_seconds"), ElementsAre(0, 0.01));
  EXPECT_THAT(read_doubles(f, "/comm/all_to_all/attention/wait_seconds"), ElementsAre(0.06, 0.04));
  EXPECT_THAT(read_doubles(f, "/comm/all_to_all/attention/wire_seconds"), ElementsAre(0.04, 0.15));
  EXPECT_THAT(read_doubles(f, "/arrivals/clock_offset"), ElementsAre(0, 5));
  EXPECT_THAT(read_doubles(f, "/arrivals/clock_error"), ElementsAre(0, 2e-6));
  EXPECT_THAT(read_doubles(f, "/arrivals/waited_for"), ElementsAre(0.09, 0.01));
  EXPECT_EQ(read_attribute<std::string>(open_group(f, "/provenance").get(), "injected"), "");
  EXPECT_THAT(read_integers(f, "/memory/measured"), ElementsAre(990, 1010));
  EXPECT_EQ(read_attribute<double>(open_group(f, "/figure_of_merit").get(), "gemm_fraction"), 0.25);
  EXPECT_FALSE(read_attribute<bool>(open_group(f, "/verdict").get(), "valid"));
  EXPECT_THAT(read_texts(f, "/verdict/reasons"), ElementsAre("the loss is NaN"));
  EXPECT_THAT(read_integers(f, "/verdict/checks/passed"), ElementsAre(0));
  EXPECT_THAT(read_doubles(f, "/gradients/embed.weight"), ElementsAre(1, 2, 3, 4, 5, 6));

  for (const auto& name : list_datasets(f, "/")) {
    const auto dataset = open_dataset(f, name);
    EXPECT_TRUE(has_attribute(dataset.get(), "description")) << name;
    const H5Type type(H5Dget_type(dataset.get()));
    EXPECT_TRUE(H5Tget_class(type.get()) == H5T_STRING || has_attribute(dataset.get(), "units")) << name;
  }
}

// The space that is reserved before rank 0 writes has to be enough; a result with many rows shows it.
TEST(Result, TheEstimateOfItsSizeHolds) {
  const test::ScratchFolder folder;
  const auto path = folder / "a.h5";
  auto sample = test::make_sample();
  sample.tensors.clear();
  test::write_sample(sample, path);
  EXPECT_LE(std::filesystem::file_size(path), estimated_bytes(sample.result));
  sample = test::make_sample(5000);
  sample.tensors.clear();
  for (int i = 0; i < 50; ++i) {
    sample.result.phases.push_back({"phase_" + std::to_string(i), std::vector<double>(8, 1.0)});
    sample.result.traffic.push_back(sample.result.traffic.front());
    sample.result.traffic.back().phase = "phase_" + std::to_string(i);
    sample.result.input.settings.push_back({"key_" + std::to_string(i), std::string(100, 'x')});
    sample.result.verdict.reasons.push_back(std::string(200, 'x'));
  }
  test::write_sample(sample, path);
  EXPECT_LE(std::filesystem::file_size(path), estimated_bytes(sample.result));
  EXPECT_GE(std::filesystem::file_size(path), estimated_bytes(sample.result) / 5);  // nor is it absurd
}

}  // namespace
}  // namespace minisp::io
