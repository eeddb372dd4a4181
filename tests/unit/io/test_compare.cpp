// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/compare.hpp"
#include "unit/io/sample_result.hpp"
#include "unit/io/scratch_folder.hpp"
#include "util/error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <limits>
#include <sstream>
#include <string_view>

namespace minisp::bench {
namespace {

using test::Sample;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Compares a changed sample against the sample.
class Compare : public testing::Test {
 protected:
  ComparisonReport compare(const std::function<void(Sample&)>& change, const CompareOptions& options = {}) {
    auto sample = test::make_sample();
    test::write_sample(sample, b_);
    change(sample);
    test::write_sample(sample, a_);
    return compare_files(a_, b_, options);
  }
  static const TensorComparison& tensor(const ComparisonReport& report, std::string_view name) {
    for (const auto& entry : report.tensors)
      if (entry.name == name) return entry;
    throw std::runtime_error("not compared: " + std::string(name));
  }

  test::ScratchFolder folder_;
  std::string a_ = folder_ / "a.h5", b_ = folder_ / "b.h5";
};

TEST_F(Compare, EqualFilesAgreeAndTheRatioIsPrinted) {
  const auto report = compare([](Sample& sample) { sample.result.figure_of_merit.tokens_per_s = 1000; });
  EXPECT_TRUE(report.valid());
  EXPECT_EQ(report.tensors.size(), 7u);
  EXPECT_THAT(report.notes, IsEmpty());
  std::ostringstream text;
  EXPECT_EQ(compare_command(a_, b_, {}, text), ExitCode::valid);
  EXPECT_THAT(text.str(), HasSubstr("ratio 1.25"));
  EXPECT_THAT(text.str(), HasSubstr("VALID: yes"));
}

TEST_F(Compare, OneElementIsFoundAndNamed) {
  const auto report =
      compare([](Sample& sample) { sample.tensors["/gradients/embed.weight"].values[3] += 1e-9; });
  EXPECT_FALSE(report.valid());
  const auto& gradient = tensor(report, "gradients/embed.weight");
  EXPECT_FALSE(gradient.passed());
  EXPECT_NEAR(gradient.relative_error, 1e-9 / std::sqrt(91.0), 1e-15);
  EXPECT_THAT(gradient.worst, ElementsAre(1, 1));
  EXPECT_EQ(gradient.worst_b, 4);
  EXPECT_TRUE(tensor(report, "weights/embed.weight").passed());
  std::ostringstream text;
  EXPECT_EQ(compare_command(a_, b_, {}, text), ExitCode::invalid);
  EXPECT_THAT(text.str(), HasSubstr("VALID: no (INVALID: 1 of 7"));
  EXPECT_THAT(text.str(), HasSubstr("[1, 1]"));
  CompareOptions wide;
  wide.tolerance = 1e-8;
  EXPECT_TRUE(compare_files(a_, b_, wide).valid());
}

TEST_F(Compare, PiecesDoNotChangeTheAnswer) {
  CompareOptions small;
  small.piece_elements = 1;
  const auto change = [](Sample& sample) { sample.tensors["/logits"].values[4] += 0.5; };
  const auto whole = compare(change), pieces = compare(change, small);
  EXPECT_EQ(tensor(whole, "logits").relative_error, tensor(pieces, "logits").relative_error);
  EXPECT_THAT(tensor(pieces, "logits").worst, ElementsAre(0, 1, 1));
  EXPECT_THAT(tensor(whole, "logits").worst, ElementsAre(0, 1, 1));
}

TEST_F(Compare, NaNFailsWhereverItStands) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto one = compare(
      [&](Sample& sample) { sample.tensors["/gradients/embed.weight"].values = {1, nan, 3, 4, 5, 100}; });
  EXPECT_FALSE(one.valid());
  EXPECT_THAT(tensor(one, "gradients/embed.weight").worst, ElementsAre(0, 1));
  test::write_sample(
      [&] {
        auto sample = test::make_sample();
        sample.tensors["/logits"].values[0] = nan;
        return sample;
      }(),
      a_);
  EXPECT_FALSE(compare_files(a_, a_, {}).valid());  // NaN in both
  EXPECT_FALSE(compare_files(b_, a_, {}).valid());  // NaN in the second only
  EXPECT_FALSE(compare([&](Sample& sample) { sample.result.metrics.loss[1] = nan; }).valid());
  CompareOptions exact;
  exact.tolerance = 0;
  EXPECT_TRUE(compare_files(b_, b_, exact).valid());
  CompareOptions infinite;
  infinite.tolerance = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(compare_files(a_, a_, infinite).valid());
}

TEST_F(Compare, ATensorOfZerosMustStayZero) {
  const auto report =
      compare([](Sample& sample) { sample.tensors["/gradients/norm.weight"].values[1] = 1e-30; });
  EXPECT_FALSE(report.valid());
  EXPECT_TRUE(std::isinf(tensor(report, "gradients/norm.weight").relative_error));
}

TEST_F(Compare, MissingTensorsAndShapesAreNamed) {
  const auto missing = compare([](Sample& sample) { sample.tensors.erase("/gradients/norm.weight"); });
  EXPECT_FALSE(missing.valid());
  EXPECT_THAT(missing.failures, ElementsAre(HasSubstr("gradients/norm.weight is missing in " + a_)));
  EXPECT_FALSE(compare_files(b_, a_, {}).valid());

  const auto group = compare([](Sample& sample) { sample.tensors.erase("/logits"); });
  EXPECT_TRUE(group.valid());  // not asked for
  EXPECT_THAT(group.notes, ElementsAre(HasSubstr("holds logits")));

  const auto shape = compare([](Sample& sample) { sample.tensors["/logits"].shape = {1, 3, 2}; });
  EXPECT_FALSE(shape.valid());
  EXPECT_THAT(shape.failures, ElementsAre(HasSubstr("logits has shape 1 x 3 x 2 against 1 x 2 x 3")));
}

TEST_F(Compare, SettingsAndVerdictsAreNamed) {
  const auto report = compare([](Sample& sample) {
    sample.result.input.settings[1].second = "3";
    sample.result.verdict.valid = false;
    sample.result.verdict.reasons = {"memory grew"};
  });
  EXPECT_FALSE(report.valid());
  EXPECT_THAT(report.notes, ElementsAre("setting model.layers: 3 against 2"));
  EXPECT_THAT(report.failures, ElementsAre(HasSubstr("memory grew")));
}

TEST_F(Compare, ThePrecisionOfTheLessPreciseFileDecides) {
  const auto report = compare([](Sample& sample) {
    sample.result.precision = "fp32";
    sample.tensors["/logits"].values[0] += 1e-6;
  });
  EXPECT_TRUE(report.valid());
  EXPECT_EQ(tensor(report, "logits").tolerance, default_tolerance(TensorKind::logits, "fp32", "sgd", 1));
}

TEST_F(Compare, Bf16IsJudgedByAToleranceOrNotAtAll) {
  auto sample = test::make_sample(1);
  sample.result.precision = "bf16";
  test::write_sample(sample, b_);
  EXPECT_TRUE(compare_files(b_, b_, {}).valid());  // the same bits need no judge
  sample.tensors["/logits"].values[0] *= 1 + 1.0 / 256;
  test::write_sample(sample, a_);
  const auto unjudged = compare_files(a_, b_, {});
  EXPECT_FALSE(unjudged.valid());
  EXPECT_THAT(unjudged.failures, ElementsAre(HasSubstr("minisp verify")));
  CompareOptions options;
  options.tolerance = 0.01;
  EXPECT_TRUE(compare_files(a_, b_, options).valid());
  options.tolerance = 1e-6;
  EXPECT_FALSE(compare_files(a_, b_, options).valid());
}

TEST_F(Compare, OnlyWhatLiesBehindAnOptimizerStepIsAllowedItsError) {
  auto sample = test::make_sample(1);
  sample.result.optimizer = "adamw";
  test::write_sample(sample, a_);
  const auto report = compare_files(a_, a_, {});
  EXPECT_EQ(tensor(report, "gradients/embed.weight").tolerance, 1e-12);
  EXPECT_EQ(tensor(report, "metrics/loss").tolerance, 1e-12);
  EXPECT_GT(tensor(report, "weights/embed.weight").tolerance, 1e-12);
}

TEST_F(Compare, ALossIsJudgedByItsOwnStep) {
  auto sample = test::make_sample(40);
  sample.result.optimizer = "adamw";
  sample.result.precision = "fp32";
  test::write_sample(sample, b_);
  sample.result.metrics.loss[39] *= 1.001;  // within what 39 steps of AdamW make of rounding
  sample.tensors["/weights/embed.weight"].values[0] = 100;
  test::write_sample(sample, a_);
  const auto late = compare_files(a_, b_, {});
  EXPECT_TRUE(late.valid());
  EXPECT_THAT(late.notes, ElementsAre(HasSubstr("1 tensors were not judged")));
  sample.result.metrics.loss[2] *= 1.001;  // beyond it
  test::write_sample(sample, a_);
  const auto early = compare_files(a_, b_, {});
  EXPECT_FALSE(early.valid());
  EXPECT_THAT(tensor(early, "metrics/loss").worst, ElementsAre(2));
  sample.result.metrics.loss[2] = std::nan("");
  test::write_sample(sample, a_);
  EXPECT_FALSE(compare_files(a_, b_, {}).valid());
}

TEST_F(Compare, WhatIsNotJudgedMustStillBeANumber) {
  auto sample = test::make_sample(100);
  sample.result.optimizer = "adamw";
  sample.result.precision = "fp32";
  test::write_sample(sample, b_);
  sample.tensors["/weights/embed.weight"].values[0] = std::nan("");
  test::write_sample(sample, a_);
  EXPECT_FALSE(compare_files(a_, b_, {}).valid());
}

TEST_F(Compare, JsonSaysTheSame) {
  compare([](Sample& sample) { sample.tensors["/logits"].values[0] = std::nan(""); });
  CompareOptions options;
  options.json = true;
  std::ostringstream text;
  EXPECT_EQ(compare_command(a_, b_, options, text), ExitCode::invalid);
  const auto document = nlohmann::json::parse(text.str());
  EXPECT_EQ(document.at("valid"), false);
  EXPECT_EQ(document.at("ratio"), 1.0);
  EXPECT_EQ(document.at("tensors").size(), 7u);
}

TEST_F(Compare, AReferenceIsHeldAgainstARunOfOneStep) {
  auto sample = test::make_sample(1);
  test::write_sample(sample, a_);
  {
    const auto file = io::create_file(b_);
    const hid_t f = file.get();
    io::write_attribute(f, "loss", 4.5);
    io::write_attribute(f, "gradient_norm", 1.5);
    const auto write = [&](const std::string& from, const std::string& to) {
      const auto& tensor = sample.tensors.at(from);
      io::write_dataset(f, to, tensor.shape, tensor.values.data(), "1", "");
    };
    write("/logits", "/logits");
    write("/activations/hidden_states/0", "/hidden_states/0");
    write("/activations/hidden_states/0", "/activations/model.norm");  // the run does not store it
    write("/gradients/embed.weight", "/gradients/embed.weight");
    write("/gradients/norm.weight", "/gradients/norm.weight");
  }
  const auto report = compare_files(a_, b_, {});
  EXPECT_TRUE(report.valid()) << testing::PrintToString(report.failures);
  EXPECT_EQ(report.tensors.size(), 6u);
  EXPECT_FALSE(report.tokens_per_s_b);
  sample.result.metrics.loss[0] = 4.6;
  test::write_sample(sample, a_);
  EXPECT_FALSE(compare_files(a_, b_, {}).valid());
  EXPECT_FALSE(compare_files(b_, a_, {}).valid());
}

TEST_F(Compare, AReferenceIsHeldAgainstARunOfFiveSteps) {
  auto sample = test::make_sample(5);
  test::write_sample(sample, a_);
  {
    const auto file = io::create_file(b_);
    io::write_attribute(file.get(), "loss", 4.5);
    io::write_attribute(file.get(), "gradient_norm", 1.5);
    const auto group = io::make_group(file.get(), "/after_5_sgd_steps");
    io::write_attribute(group.get(), "losses", sample.result.metrics.loss);
    io::write_attribute(group.get(), "gradient_norms", sample.result.metrics.grad_norm);
    io::write_dataset(file.get(), "/after_5_sgd_steps/embed.weight", {3, 2},
                      sample.tensors["/weights/embed.weight"].values.data(), "1", "");
  }
  const auto report = compare_files(a_, b_, {});
  EXPECT_TRUE(report.valid()) << testing::PrintToString(report.failures);
  EXPECT_EQ(report.tensors.size(), 3u);
}

TEST_F(Compare, OtherFilesAreBadInput) {
  test::write_sample(test::make_sample(), a_);
  {
    const auto file = io::create_file(b_);
    io::write_attribute(file.get(), "title", "something else");
  }
  for (const auto& other : {b_, folder_ / "absent.h5"}) {
    try {
      compare_files(a_, other, {});
      ADD_FAILURE() << other;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), HasSubstr(other));
    }
  }
}

TEST(DefaultTolerance, GrowsWithWhatBlursATensor) {
  const auto gradient = [](const char* precision, const char* optimizer, std::int64_t steps) {
    return default_tolerance(TensorKind::gradient, precision, optimizer, steps);
  };
  EXPECT_EQ(gradient("fp64", "adamw", 0), 1e-12);
  EXPECT_EQ(gradient("fp32", "adamw", 0), 1e-5);
  EXPECT_EQ(gradient("fp64", "sgd", 5), 1e-12);
  EXPECT_GT(gradient("fp64", "sgd", 20), 1e-12);
  EXPECT_GT(gradient("fp32", "adamw", 5), gradient("fp32", "sgd", 5));
  EXPECT_LT(gradient("fp32", "adamw", 5), 1e-2);  // a lost term shows
  EXPECT_TRUE(std::isinf(gradient("fp32", "adamw", 100)));
  EXPECT_LT(default_tolerance(TensorKind::loss, "fp32", "adamw", 5), 2e-5);
}

}  // namespace
}  // namespace minisp::bench
