// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Fits find what measurements were made from.
#include "perfmodel/calibration.hpp"
#include "perfmodel/least_squares.hpp"
#include "perfmodel_support.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace minisp::perfmodel {
namespace {

TEST(LeastSquares, FindsTheConstantsAndNoneBelowZero) {
  const std::vector<std::vector<double>> rows = {{1, 2, 0}, {1, 1, 3}, {1, 5, 1}, {1, 0, 2}};
  std::vector<double> values;
  for (const auto& row : rows) values.push_back(2 * row[0] + 0.5 * row[1] + 3e-3 * row[2]);
  const auto x = nonnegative_least_squares(rows, values);
  EXPECT_NEAR(x[0], 2, 1e-9);
  EXPECT_NEAR(x[1], 0.5, 1e-9);
  EXPECT_NEAR(x[2], 3e-3, 1e-9);
  // The best line through these falls; the best that may not is their mean.
  const auto flat = nonnegative_least_squares({{1, 0}, {1, 1}, {1, 2}}, {3, 2, 1});
  EXPECT_NEAR(flat[0], 2, 1e-12);
  EXPECT_EQ(flat[1], 0);
  const auto second = nonnegative_least_squares({{0, 1}, {0, 2}}, {1, 2});
  EXPECT_EQ(second[0], 0);
  EXPECT_NEAR(second[1], 1, 1e-12);
}

TEST(LeastSquares, SimplexFindsTheFloorOfAValley) {
  const auto f = [](const std::vector<double>& x) {
    return std::pow(1 - x[0], 2) + 100 * std::pow(x[1] - x[0] * x[0], 2);  // Rosenbrock
  };
  const auto x = simplex_minimum(f, {-1.2, 1}, 0.5, 1000);
  EXPECT_NEAR(x[0], 1, 1e-4);
  EXPECT_NEAR(x[1], 1, 1e-4);
}

StepSample sample_of(const Machine& machine, const std::string& name, const Scenario& scenario) {
  const auto prediction = predict(machine, scenario);
  StepSample sample{name, scenario, {}, {}, prediction.step};
  for (const auto& phase : prediction.phases) {
    sample.own[phase.name] = phase.own;
    if (phase.wait + phase.wire > 0) sample.collectives[phase.name] = phase.wait + phase.wire;
  }
  return sample;
}

/// A machine whose measurements are exact.
Machine truth() {
  auto machine = simple_machine();
  machine.exposed_gathers = 0.4;
  machine.slowest_over_mean = 1.1;
  machine.ranges.clear();
  return machine;
}

TEST(Calibration, FindsTheMachineThatWasMeasured) {
  const auto machine = truth();
  std::vector<CollectiveSample> collectives;
  for (const auto& peers : {consecutive_groups({8, 4}, 2), consecutive_groups({8, 4}, 4),
                            consecutive_groups({8, 4}, 8), strided_groups({8, 4}, 4)})
    for (const double bytes : {8.0, 1e3, 1e5, 1e6})
      for (const auto kind : {Collective::all_to_all, Collective::all_gather}) {
        const auto& rates = kind == Collective::all_to_all ? machine.all_to_all : machine.all_gather;
        collectives.push_back({kind, peers, bytes, wire_seconds(rates, {kind, peers, bytes, 1})});
      }
  std::vector<StepSample> steps;
  using config::Sharding;
  const Decomposition decompositions[] = {{8, 1}, {8, 8}, {8, 4}, {8, 4, Sharding::zero3, 8}};
  for (const auto& d : decompositions)
    for (const char* size : {"model.hidden=16", "model.hidden=48"})
      for (const char* length : {"train.sequence_length=64", "train.sequence_length=256"}) {
        const auto config =
            small_deck({size, length, "train.batch=8", "model.layers=3", "model.intermediate=96"});
        steps.push_back(sample_of(machine, "probe", equal_lengths(config, d, {8, 4})));
      }
  Machine found;
  found.name = "found";
  found.ranks_per_node = 4;
  fit_collectives(collectives, found);
  EXPECT_NEAR(found.all_to_all.bytes_per_s_off_node, 1e6, 1);
  EXPECT_NEAR(found.all_gather.seconds_per_call, 0.02, 1e-9);
  fit_steps(steps, config::Precision::fp32, found);
  EXPECT_NEAR(found.skew.share_of_work, 0.1, 1e-6);
  EXPECT_NEAR(found.skew.seconds_per_call, 0.0005, 1e-6);
  EXPECT_NEAR(found.exposed_gathers, 0.4, 1e-6);
  EXPECT_NEAR(found.slowest_over_mean, 1.1, 1e-6);
  EXPECT_EQ(found.ranges.at("group_ranks").most, 8);
  // Other sizes than any that was measured.
  const auto config = small_deck({"model.hidden=32", "train.sequence_length=128", "model.vocabulary=128"});
  for (const auto& d : decompositions) {
    const auto scenario = equal_lengths(config, d, {8, 4});
    EXPECT_NEAR(predict(found, scenario).step / predict(machine, scenario).step, 1, 1e-3);
  }
  const auto lines = residuals(steps, collectives, found);
  EXPECT_EQ(lines[1].substr(0, 5), "probe");
  EXPECT_NE(lines[1].find("0.0 %"), std::string::npos) << lines[1];
}

}  // namespace
}  // namespace minisp::perfmodel
