// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "perfmodel/machine.hpp"
#include "perfmodel_support.hpp"
#include "support/error_of.hpp"

#include <gtest/gtest.h>

#include <gmock/gmock.h>

namespace minisp::perfmodel {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The file of simple_machine() with `from` replaced by `to`.
std::string changed(const std::string& from, const std::string& to) {
  auto text = machine_text(simple_machine(), {"a note"});
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_with(const std::string& from, const std::string& to) {
  const auto text = changed(from, to);
  return test::error_of([&] { parse_machine(text, "m.toml"); });
}

TEST(Machine, IsReadAsItWasWritten) {
  const auto machine = simple_machine();
  const auto read = parse_machine(machine_text(machine, {"a note", ""}), "m.toml");
  EXPECT_EQ(machine_text(read, {"a note", ""}), machine_text(machine, {"a note", ""}));
  EXPECT_EQ(read.name, machine.name);
  EXPECT_EQ(read.rates(config::Precision::fp32, "mlp").flops_per_s, 4e9);
  EXPECT_EQ(read.rates(config::Precision::fp32, "norm").flops_per_s, 2e9);  // the default's
  EXPECT_EQ(read.all_to_all.bytes_per_s_off_node, 1e6);
  EXPECT_EQ(read.ranges.at("ranks").most, 8);
}

TEST(Machine, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(
      error_with("seconds_per_peer_on_node", "seconds_per_peer_in_node"),
      AllOf(StartsWith("m.toml:"), HasSubstr("all_to_all.seconds_per_peer_in_node: there is no such key"),
            HasSubstr("Did you mean 'seconds_per_peer_on_node'")));
  EXPECT_THAT(error_with("[skew]", "[skwe]"), HasSubstr("skwe: there is no such key"));
  EXPECT_THAT(error_with("compute.fp32.mlp", "compute.fp32.mpl"),
              HasSubstr("compute.fp32.mpl: there is no such key"));
  EXPECT_THAT(error_with("origin = \"calibrated\"", "origin = \"guessed\""),
              HasSubstr("'guessed' is no origin"));
  EXPECT_THAT(error_with("\nranks = [", "\nrankes = ["), HasSubstr("range.rankes: there is no such key"));
}

TEST(Machine, RefusesWhatIsMissing) {
  EXPECT_THAT(error_with("ranks_per_node = 4\n", ""),
              HasSubstr("machine.ranks_per_node: the key is missing"));
  EXPECT_THAT(error_with("[compute.fp32.default]", "[compute.fp32.norm]"),
              HasSubstr("compute.fp32.default: the key is missing"));
  EXPECT_THAT(test::error_of([] { parse_machine("", "m.toml"); }), HasSubstr("machine: the key is missing"));
}

TEST(Machine, RefusesNumbersOutOfRange) {
  EXPECT_THAT(error_with("share_of_work = 0.", "share_of_work = -0."), HasSubstr("skew.share_of_work: -0."));
  EXPECT_THAT(error_with("bytes_per_s_off_node = 1.0000e+06", "bytes_per_s_off_node = 0"),
              HasSubstr("all_to_all.bytes_per_s_off_node: 0 is out of range"));
  EXPECT_THAT(error_with("ranks_per_node = 4", "ranks_per_node = 2.5"), HasSubstr("2.5 is out of range"));
  EXPECT_THAT(error_with("slowest_over_mean = 1", "slowest_over_mean = 0"), HasSubstr("out of range"));
  EXPECT_THAT(error_with("share_of_work = 0.10000", "share_of_work = inf"), HasSubstr("inf is out of range"));
  EXPECT_THAT(error_with("links_per_node = 1", "links_per_node = \"one\""),
              HasSubstr("the value is no number"));
  EXPECT_THAT(error_with("ranks = [2, 8]", "ranks = [8, 2]"), HasSubstr("8 to 2 is no range"));
  EXPECT_THAT(error_with("ranks = [2, 8]", "ranks = 8"), HasSubstr("no list of two numbers"));
}

TEST(Machine, HasRatesOfItsPrecisionsOnly) {
  const auto machine = simple_machine();
  EXPECT_THAT(test::error_of([&] { machine.rates(config::Precision::bf16, "mlp"); }),
              HasSubstr("has no rates of bf16"));
}

}  // namespace
}  // namespace minisp::perfmodel
