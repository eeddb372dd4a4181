// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The gradients of a whole transformer against central differences of its loss, in fp64, in every tensor.
#include "support/training.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace minisp::test {
namespace {

using config::Family;

struct Case {
  const char* name;
  Family family;
  Index heads, kv_heads;
  bool tied;
  bool packed;  // documents in the rows
};

class Gradients : public testing::TestWithParam<Case> {
 protected:
  static config::Architecture model() {
    const auto& c = GetParam();
    auto a = small_model(c.family, c.heads, c.kv_heads);
    a.tied_head = c.tied;
    return a;
  }
};

/// Derivative of the loss along `direction` (one entry of the flat buffer), by fourth-order differences.
double difference(train::Trainer<double>& trainer, const model::ParameterEntry& entry,
                  const std::vector<double>& direction) {
  const auto& weights = trainer.weights();
  const auto kept = host_copy(weights);
  constexpr double h = 3e-4;
  const auto loss = [&](double shift) {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), weights);
    for (std::size_t i = 0; i < direction.size(); ++i) {
      const auto at = static_cast<std::size_t>(entry.offset) + i;
      host(at) = kept[at] + shift * direction[i];
    }
    Kokkos::deep_copy(weights, host);
    return trainer.compute_gradients().loss;
  };
  const double slope = (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h);
  loss(0);
  return slope;
}

TEST_P(Gradients, EqualDifferencesInEveryTensor) {
  auto config = training_config(model(), 2, 7);
  if (GetParam().packed) {
    config.data.end_of_document = 0;
    config.train.dropout = 0.2;  // the mask stays as it is when weights move
  }
  const TokensOf tokens([&](Index row, Index p) {
    return GetParam().packed && p == 3 + row ? 0 : random_token(config.model.vocabulary, row, p);
  });
  const auto self = comm::Communicator::self();
  Training<double> training(self, config, tokens);
  auto& trainer = training.trainer;
  shake(trainer.weights(), 0.1);
  const auto result = trainer.compute_gradients();
  const auto gradients = host_copy(trainer.gradients());

  // Differences: the method's error is h^4 / 30 = 3e-16 of a fifth derivative, which reaches some thousand
  // where norms divide by small numbers; rounding is 1e-15 / h = 3e-12 for a direction of length 1.
  constexpr double tolerance = 1e-10;
  for (const auto& entry : trainer.layout().entries()) {
    const auto size = static_cast<std::size_t>(entry.size());
    const double* gradient = gradients.data() + entry.offset;
    // All elements at once along a random unit vector; then some alone, the largest gradient among them.
    std::vector<double> direction(size);
    double length = 0, expected = 0;
    for (std::size_t i = 0; i < size; ++i) {
      direction[i] = math::random_normal(17, static_cast<std::uint64_t>(entry.offset), i);
      length += direction[i] * direction[i];
    }
    std::size_t largest = 0;
    for (std::size_t i = 0; i < size; ++i) {
      direction[i] /= std::sqrt(length);
      expected += direction[i] * gradient[i];
      if (std::abs(gradient[i]) > std::abs(gradient[largest])) largest = i;
    }
    EXPECT_NEAR(difference(trainer, entry, direction), expected, tolerance) << entry.name;
    for (const std::size_t i : {std::size_t(0), largest, size - 1}) {
      std::vector<double> unit(size, 0.0);
      unit[i] = 1;
      EXPECT_NEAR(difference(trainer, entry, unit), gradient[i], tolerance) << entry.name << " [" << i << "]";
    }
    // The tolerance must be able to fail: no tensor of these models is without effect.
    EXPECT_GT(std::abs(gradient[largest]), 1e-5) << entry.name;
  }
  EXPECT_EQ(result.valid_tokens, GetParam().packed ? 12 : 14);
}

INSTANTIATE_TEST_SUITE_P(Families, Gradients,
                         testing::Values(Case{"llama_untied", Family::llama, 4, 2, false, false},
                                         Case{"llama_tied", Family::llama, 4, 1, true, true},
                                         Case{"qwen2_bias", Family::qwen2, 4, 2, true, true},
                                         Case{"qwen3_qk_norm", Family::qwen3, 4, 2, false, false},
                                         Case{"gpt2", Family::gpt2, 4, 4, true, true}),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace minisp::test
