// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "perfmodel/figures.hpp"
#include "perfmodel_support.hpp"
#include "support/error_of.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <gmock/gmock.h>

namespace minisp::perfmodel {
namespace {

using ::testing::HasSubstr;

constexpr const char* header = "fig,model,N,B,S,metric,ulysses,basp,note\n";

Machine cluster() {
  auto machine = simple_machine();
  machine.compute.clear();
  machine.compute["bf16"]["default"] = {1e-5, 1.5e14, 1.2e12, 2e12};
  machine.all_to_all = {5e-5, 5e-6, 1e-5, 2e11, 4e10};
  machine.all_gather = {5e-5, 5e-6, 1e-5, 2e11, 4e10};
  machine.skew = {1e-4, 0.02, 0};
  machine.exposed_gathers = 0.5;
  machine.ranges.clear();
  return machine;
}

TEST(Figures, AreReadAsStated) {
  const auto rows = parse_figures(std::string(header) +
                                      "3,llama3.2-3b,8,,,a2a_pct,34,,profile\n"
                                      "10,llama3.2-3b,8,,,loss_axis,18 to 4,same,800 iterations\n",
                                  "t.csv");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].batch, 0);
  EXPECT_EQ(rows[0].ulysses, 34);
  EXPECT_FALSE(rows[0].basp);
  EXPECT_FALSE(rows[1].ulysses);
}

TEST(Figures, RefuseWhatIsNoTable) {
  const auto refused = [](const std::string& text) {
    return test::error_of([&] { parse_figures(text, "t.csv"); });
  };
  EXPECT_THAT(refused("a,b\n"), HasSubstr("t.csv:1: the first line is not"));
  EXPECT_THAT(refused(std::string(header) + "7,x,8\n"), HasSubstr("t.csv:2: has 3 columns, not 9"));
  EXPECT_THAT(refused(std::string(header) + "7,x,eight,2,1,a2a_pct,1,1,\n"),
              HasSubstr("t.csv:2: N: 'eight' is no"));
  EXPECT_THAT(refused(std::string(header) + "7,x,,2,1,a2a_pct,1,1,\n"), HasSubstr("N is missing"));
  const auto rows = parse_figures(std::string(header) + "7,llama4,8,2,16384,a2a_pct,1,1,\n", "t.csv");
  EXPECT_THAT(test::error_of([&] { fit_figures(rows, {}, cluster()); }),
              HasSubstr("'llama4' is no model of the paper"));
}

TEST(Figures, OfAKnownMachineAreFound) {
  // Shares and speed-ups of a machine with a link of a tenth and four times the skew.
  auto known = cluster();
  known.all_to_all.bytes_per_s_off_node /= 10;
  known.skew.share_of_work *= 4;
  std::string table = header;
  for (const int batch : {1, 2, 4}) {
    const auto step = [&](const char* system, Index k) {
      const auto config = config::parse_config(
          fmt::format(
              "model.preset = \"llama-3.2-1b-basp-table2\"\ntrain.batch = {}\ntrain.sequence_length = 8192\n"
              "train.precision = \"bf16\"\nparallel.sharding = \"zero3\"\nparallel.system = \"{}\"\n",
              batch, system),
          "deck");
      return predict(known, equal_lengths(config, {8, k, config::Sharding::zero3, 8}, {8, 4}));
    };
    const auto u = step("ulysses", 8), b = step("basp", 8 / batch);
    table += fmt::format("8,llama3.2-1b,8,{},8192,a2a_pct,{},{},\n", batch, 100 * u.all_to_all / u.step,
                         100 * b.all_to_all / b.step);
    table += fmt::format("8,llama3.2-1b,8,{},8192,e2e_speedup,1,{},\n", batch, u.step / b.step);
  }
  table += "8,llama3.2-1b,8,8,8192,a2a_speedup,1,85,\n";
  const auto fit = fit_figures(parse_figures(table, "t.csv"), {"8"}, cluster());
  EXPECT_LT(fit.error, 0.2);
  ASSERT_EQ(fit.rows.size(), 7U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(fit.rows[i].reproduced) << i << fit.rows[i].reason;
  EXPECT_THAT(fit.rows[6].reason, HasSubstr("K = 1 exchanges nothing"));
  EXPECT_EQ(fit.machine.origin, "fitted");
}

TEST(Figures, SayWhatCannotBeReproducedAndWhy) {
  const auto rows = parse_figures(std::string(header) +
                                      "9,llama3.2-3b,8,2,1024,step_reduction_pct,0,9,\n"
                                      "9,llama3.2-3b,8,2,2048,step_reduction_pct,0,30,\n"
                                      "9,llama3.2-3b,8,2,4096,step_reduction_pct,0,-40,\n"
                                      "9,llama3.2-3b,8,2,16384,step_reduction_pct,0,18,\n",
                                  "t.csv");
  const auto fit = fit_figures(rows, {}, cluster());
  EXPECT_FALSE(fit.rows[2].reproduced);
  EXPECT_THAT(fit.rows[2].reason, HasSubstr("fall here and rise later"));
  EXPECT_THAT(fit_text(fit), ::testing::Contains(HasSubstr("other order: figure 9")));
}

}  // namespace
}  // namespace minisp::perfmodel
