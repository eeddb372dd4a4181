// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The work of a step against the formulas of the rooms that do it.
#include "config/presets.hpp"
#include "model/parameters.hpp"
#include "parallel/parameter_store.hpp"
#include "parallel/volume.hpp"
#include "perfmodel/work.hpp"
#include "perfmodel_support.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace minisp::perfmodel {
namespace {

TEST(Work, UnitsHaveTheParametersOfEveryPreset) {
  for (const auto& name : config::preset_names()) {
    const auto architecture = config::preset(name);
    const model::ParameterLayout layout(architecture);
    const auto sizes = unit_sizes(architecture);
    EXPECT_EQ(sizes.embeddings, layout.units().front().size) << name;
    EXPECT_EQ(sizes.block, layout.units()[1].size) << name;
    EXPECT_EQ(sizes.last, layout.units().back().size) << name;
  }
}

using Bytes = std::map<std::string, double>;  // by phase, that a rank sends in a step

Bytes bytes_of_model(const config::Config& config, const parallel::Plan& plan) {
  const Decomposition d{plan.ranks, plan.sequence_degree, plan.sharding, plan.shard_ranks};
  const auto scenario = equal_lengths(config, d, {plan.ranks, 4});
  const double sizes[] = {double(d.ranks), double(d.sequence_degree), double(d.shard_ranks),
                          double(d.ranks / d.shard_ranks)};
  Bytes bytes;
  for (const auto& event : step_of(config, d, scenario.groups.front().load))
    if (!event.computes)
      bytes[event.phase] += event.calls * event.bytes_per_peer * (sizes[static_cast<int>(event.scope)] - 1);
  std::erase_if(bytes, [](const auto& line) { return line.second == 0; });
  return bytes;
}

Bytes bytes_of_formula(const config::Config& config, const parallel::Plan& plan, std::size_t e,
                       std::size_t gradient) {
  const parallel::TrafficModel traffic(plan, 1, std::vector<int>(static_cast<std::size_t>(plan.ranks), 0));
  const Index micro = config.train.accumulation;
  auto lines =
      traffic.attention(config.model, e, micro, config.train.recompute == config::Recompute::full ? 2 : 1);
  lines.push_back(traffic.scalars("data", 1));
  lines.push_back(traffic.scalars("loss_reduction", 1));
  const model::ParameterLayout layout(config.model);
  for (auto& line : traffic.parameters(layout.units(), config.model.tied_head, e, gradient, 1, micro))
    lines.push_back(line);
  Bytes bytes;
  for (const auto& line : lines) {
    const bool norm = line.phase == parallel::phase::gradient_norm;
    bytes[norm ? "gradient_norm" : line.phase] += double(line.bytes_on_node + line.bytes_off_node);
  }
  std::erase_if(bytes, [](const auto& line) { return line.second == 0; });
  return bytes;
}

TEST(Work, SendsTheBytesOfTheClosedFormulas) {
  const char* systems[] = {"ulysses", "basp"};
  const char* shardings[] = {"none", "zero1", "zero2", "zero3", "mics"};
  for (const char* system : systems)
    for (const char* sharding : shardings)
      for (const char* recompute : {"none", "full"})
        for (const char* tied : {"true", "false"}) {
          SCOPED_TRACE(std::string(system) + " " + sharding + " " + recompute + " tied " + tied);
          const auto config = small_deck(
              {std::string("parallel.system=") + system, std::string("parallel.sharding=") + sharding,
               std::string("train.recompute=") + recompute, std::string("model.tied_head=") + tied,
               "train.accumulation=3", "model.layers=2", "model.hidden=18", "train.batch=2"});
          const auto plan = parallel::make_plan(config.parallel, 8, config.model, 2, 16);
          const auto model = bytes_of_model(config, plan), formula = bytes_of_formula(config, plan, 4, 4);
          ASSERT_EQ(model.size(), formula.size());
          for (const auto& [phase, bytes] : formula)  // a piece's bytes may be no whole number
            EXPECT_NEAR(model.at(phase), bytes, 1e-9 * bytes) << phase;
        }
}

TEST(Work, SendsGradientsInTheirPrecision) {
  for (const char* gradient : {"model", "fp32"}) {
    const auto config =
        small_deck({"train.precision=bf16", std::string("train.gradient_precision=") + gradient,
                    "parallel.system=ulysses", "parallel.sharding=zero3"});
    const auto plan = parallel::make_plan(config.parallel, 8, config.model, 2, 16);
    EXPECT_EQ(bytes_of_model(config, plan), bytes_of_formula(config, plan, 2, gradient[0] == 'f' ? 4 : 2));
  }
}

TEST(Work, CountsTheFlopsOfTheFigureOfMerit) {
  // 6 FLOP a weight and token, 2 (2 + 5) d for attention's pairs: train::model_flops counts 12 d of these 14.
  const auto config = small_deck();
  const auto& a = config.model;
  double products = 0, attention = 0;
  for (const auto& event : step_of(config, {1, 1}, group_load(config, 2, 16)))
    (event.phase.starts_with("attention") ? attention : products) += event.work.flops;
  const double weights = double(a.hidden * (a.q_size() + 2 * a.kv_size()) + a.q_size() * a.hidden +
                                3 * a.hidden * a.intermediate + a.vocabulary * a.hidden);
  EXPECT_DOUBLE_EQ(products, 6 * weights * 32);
  EXPECT_DOUBLE_EQ(attention, 14 * double(a.q_size()) * 2 * (16 * 17 / 2));
}

TEST(Work, DocumentsShortenWhatAQuerySees) {
  const auto config = small_deck({"data.end_of_document=0", "data.mean_document_length=4"});
  // The sum that the closed form stands for.
  double pairs = 0;
  for (int p = 0; p < 16; ++p)
    for (int j = 0; j <= p; ++j) pairs += std::pow(0.75, j);
  EXPECT_NEAR(group_load(config, 2, 16).visible_pairs, 2 * pairs, 1e-9);
  EXPECT_EQ(group_load(small_deck(), 2, 16).visible_pairs, 2 * 16 * 17 / 2);
}

}  // namespace
}  // namespace minisp::perfmodel
