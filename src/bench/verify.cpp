// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/commands.hpp"
#include "bench/compare.hpp"
#include "bench/plan_text.hpp"
#include "comm/agree.hpp"
#include "comm/scalars.hpp"
#include "config/deck.hpp"
#include "io/provenance.hpp"
#include "io/reference_file.hpp"
#include "train/recorder.hpp"
#include "train/self_check.hpp"
#include "train/trainer.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <optional>

namespace minisp::bench {

namespace {

using comm::Communicator;
using config::Config;

constexpr Index optimizer_steps = 5;

parallel::Plan plan_of(const Config& config, int ranks) {
  return parallel::make_plan(config.parallel, ranks, config.model, config.train.batch,
                             config.train.sequence_length);
}

/// A trainer with the mesh and timers that it needs.
template <class T>
struct Training {
  parallel::Mesh mesh;
  PhaseTimers timers;
  train::Trainer<T> trainer;

  Training(const Communicator& world, const Config& config, const train::TokenSource& tokens)
      : mesh(world, plan_of(config, world.size())), trainer(config, mesh, tokens, timers) {}
};

/// Collective: a rank that cannot (memory, weights that are cut off) is every rank's error.
template <class T>
std::unique_ptr<Training<T>> make_training(const Communicator& world, const Config& config,
                                           const train::TokenSource& tokens) {
  return comm::collective_guard(world, [&] { return std::make_unique<Training<T>>(world, config, tokens); });
}

/// One tensor of a flat buffer, Hugging Face order.
template <class T>
std::vector<double> tensor_of(const model::ParameterEntry& entry, const Vector<T>& flat) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), flat);
  return model::to_hugging_face<T>(entry, host);
}

/// GPT-2's key bias has no gradient but rounding errors, wherever it stands inside the fused bias.
TensorKind weight_kind(const config::Architecture& architecture, const std::string& name) {
  const bool key_bias = name.ends_with("k_proj.bias") ||
                        (architecture.family == config::Family::gpt2 && name.ends_with("c_attn.bias"));
  return key_bias ? TensorKind::key_bias : TensorKind::weight;
}

/// Prints on rank 0; the verdict is that of every rank.
ExitCode conclude(const Communicator& world, ComparisonReport& report, Index ranks_that_differ) {
  if (ranks_that_differ > 0)
    report.failures.push_back(fmt::format("{} ranks hold other weights than rank 0", ranks_that_differ));
  if (world.rank() == 0) print_report(std::cout, report);
  return static_cast<ExitCode>(
      comm::maximum(world, Index(world.rank() == 0 ? report.exit_code() : ExitCode::valid)));
}

// ---- against one rank

template <class T>
ExitCode verify_deck(const Communicator& world, const Config& config, const VerifyOptions& options) {
  const auto tokens = comm::collective_guard(world, [&] { return train::make_token_source(config); });
  const std::string precision = config::to_string(config.train.precision);
  const std::string optimizer = config::to_string(config.train.optimizer);
  Config alone_config = config;
  alone_config.parallel = {};
  const auto self = Communicator::self();

  ComparisonReport report;
  report.file_a = options.deck;
  report.file_b = options.deck;
  report.precision = precision;
  const auto training = make_training<T>(world, config, *tokens);
  report.title_a = describe(training->mesh.plan());
  report.title_b = "one rank";
  // One rank computes alone while the others wait.
  std::unique_ptr<Training<T>> alone;
  comm::collective_guard(world, [&] {
    if (world.rank() == 0) alone = std::make_unique<Training<T>>(self, alone_config, *tokens);
  });

  std::vector<double> losses, norms, expected_losses, expected_norms;
  const auto take = [](std::vector<double>& l, std::vector<double>& n, const train::StepResult& result) {
    l.push_back(result.loss);
    n.push_back(result.gradient_norm);
  };
  take(losses, norms, training->trainer.compute_gradients());
  if (alone) {
    take(expected_losses, expected_norms, alone->trainer.compute_gradients());
    for (const auto& entry : training->trainer.layout().entries())
      report.tensors.push_back(compare_values(
          "gradients/" + entry.name, TensorKind::gradient, entry.shape,
          tensor_of(entry, training->trainer.gradients()), tensor_of(entry, alone->trainer.gradients()),
          default_tolerance(TensorKind::gradient, precision, optimizer, 0)));
  }
  for (Index step = 0; step < optimizer_steps; ++step) {
    take(losses, norms, training->trainer.step());
    if (alone) take(expected_losses, expected_norms, alone->trainer.step());
  }
  if (alone) {
    const auto tolerance = [&](TensorKind kind) {
      return default_tolerance(kind, precision, optimizer, optimizer_steps);
    };
    report.tensors.push_back(compare_values("loss", TensorKind::loss, {static_cast<Index>(losses.size())},
                                            losses, expected_losses, tolerance(TensorKind::loss)));
    report.tensors.push_back(compare_values("gradient norm", TensorKind::gradient_norm,
                                            {static_cast<Index>(norms.size())}, norms, expected_norms,
                                            tolerance(TensorKind::gradient_norm)));
    for (const auto& entry : training->trainer.layout().entries()) {
      const auto kind = weight_kind(config.model, entry.name);
      report.tensors.push_back(compare_values("weights/" + entry.name, kind, entry.shape,
                                              tensor_of(entry, training->trainer.weights()),
                                              tensor_of(entry, alone->trainer.weights()), tolerance(kind)));
    }
  }
  return conclude(world, report, train::ranks_that_differ<T>(world, training->trainer.weights()));
}

// ---- against a reference folder

/// The deck that a reference folder stands for; `overrides` come on top.
Config reference_config(const std::string& folder, const io::Reference& reference,
                        const std::vector<std::string>& overrides) {
  const auto& tokens = reference.array("tokens");
  const Index sequences = tokens.shape.at(0), length = tokens.shape.at(1) - 1;
  const Index end_of_document =
      reference.attributes.count("eod") ? static_cast<Index>(reference.scalar("eod")) : Index(-1);
  const auto quoted = [&](const char* file) {
    return fmt::format("'{}'", (std::filesystem::path(folder) / file).string());
  };
  return config::parse_config(
      fmt::format("[model]\nfolder = '{}'\nweights = \"folder\"\n"
                  "[data]\nsource = \"tokens\"\nfile = {}\ntoken_type = \"uint16\"\nrow_stride = {}\n"
                  "end_of_document = {}\n"
                  "[train]\nbatch = {}\nsequence_length = {}\nprecision = \"fp64\"\n",
                  folder, quoted("tokens.bin"), length + 1, end_of_document, sequences, length),
      folder, overrides);
}

void compare_with(const io::Reference& reference, const std::string& path, TensorKind kind,
                  const std::vector<double>& values, double tolerance, ComparisonReport& report) {
  const auto& expected = reference.array(path);
  if (expected.values.size() != values.size())
    report.failures.push_back(
        fmt::format("{}: {} values, the reference has {}", path, values.size(), expected.values.size()));
  else
    report.tensors.push_back(compare_values(path, kind, expected.shape, values, expected.values, tolerance));
}

void compare_numbers(const io::Reference& reference, const std::string& attribute, TensorKind kind,
                     const std::vector<double>& values, double tolerance, ComparisonReport& report) {
  report.tensors.push_back(compare_values(attribute, kind, {static_cast<Index>(values.size())}, values,
                                          reference.list(attribute), tolerance));
}

TensorKind recorded_kind(const std::string& name) {
  return name == "logits" ? TensorKind::logits : TensorKind::activation;
}

/// Loss, logits, hidden states, activations and gradients of one step.
template <class T>
void compare_one_step(const Communicator& world, const Config& config, const train::TokenSource& tokens,
                      const io::Reference& reference, ComparisonReport& report) {
  const auto training = make_training<T>(world, config, tokens);
  train::Recorder<T> recorder(training->mesh, 1,
                              [&](const std::string& name) { return reference.has(name); });
  training->trainer.observe(recorder.observer());
  const auto result = training->trainer.compute_gradients();
  const auto tolerance = [&](TensorKind kind) { return default_tolerance(kind, report.precision, "", 0); };
  compare_numbers(reference, "loss", TensorKind::loss, {result.loss}, tolerance(TensorKind::loss), report);
  compare_numbers(reference, "gradient_norm", TensorKind::gradient_norm, {result.gradient_norm},
                  tolerance(TensorKind::gradient_norm), report);
  if (static_cast<double>(result.valid_tokens) != reference.scalar("valid_tokens"))
    report.failures.push_back(fmt::format("{} valid tokens, the reference has {}", result.valid_tokens,
                                          reference.scalar("valid_tokens")));
  for (const auto& name : recorder.names()) {
    const auto kind = recorded_kind(name);
    compare_with(reference, name, kind, recorder.gather(name), tolerance(kind), report);
  }
  for (const auto& entry : training->trainer.layout().entries())
    compare_with(reference, "gradients/" + entry.name, TensorKind::gradient,
                 tensor_of(entry, training->trainer.gradients()), tolerance(TensorKind::gradient), report);
}

/// Losses, norms and weights of five steps on the same batch.
template <class T>
Index compare_steps(const Communicator& world, Config config, config::OptimizerKind kind,
                    const train::TokenSource& tokens, const io::Reference& reference,
                    ComparisonReport& report) {
  const std::string optimizer = config::to_string(kind);
  const std::string group = "after_5_" + optimizer + "_steps";
  auto& t = config.train;
  t.optimizer = kind;
  t.learning_rate = kind == config::OptimizerKind::sgd ? 0.1 : 1e-2;
  t.learning_rate_warmup = t.learning_rate_decay = 0;
  t.beta1 = 0.9;
  t.beta2 = 0.95;
  t.epsilon = 1e-8;
  t.weight_decay = 0.1;
  t.clip = reference.scalar(group + "@clip");
  const auto training = make_training<T>(world, config, tokens);
  std::vector<double> losses, norms;
  for (Index step = 0; step < optimizer_steps; ++step) {
    const auto result = training->trainer.step();
    losses.push_back(result.loss);
    norms.push_back(result.gradient_norm);
  }
  const auto tolerance = [&](TensorKind k) {
    return default_tolerance(k, report.precision, optimizer, optimizer_steps);
  };
  compare_numbers(reference, group + "@losses", TensorKind::loss, losses, tolerance(TensorKind::loss),
                  report);
  compare_numbers(reference, group + "@gradient_norms", TensorKind::gradient_norm, norms,
                  tolerance(TensorKind::gradient_norm), report);
  for (const auto& entry : training->trainer.layout().entries()) {
    const auto weight = weight_kind(config.model, entry.name);
    compare_with(reference, group + "/" + entry.name, weight, tensor_of(entry, training->trainer.weights()),
                 tolerance(weight), report);
  }
  return train::ranks_that_differ<T>(world, training->trainer.weights());
}

template <class T>
ExitCode verify_reference(const Communicator& world, const Config& config, const io::Reference& reference,
                          const VerifyOptions& options) {
  const auto tokens = comm::collective_guard(world, [&] { return train::make_token_source(config); });
  ComparisonReport report;
  report.file_a = options.reference;
  report.file_b = reference.file;
  report.precision = config::to_string(config.train.precision);
  report.title_a = describe(plan_of(config, world.size())) + ", " + report.precision;
  report.title_b = "reference";
  compare_one_step<T>(world, config, *tokens, reference, report);
  Index differ = compare_steps<T>(world, config, config::OptimizerKind::sgd, *tokens, reference, report);
  differ += compare_steps<T>(world, config, config::OptimizerKind::adamw, *tokens, reference, report);
  return conclude(world, report, differ);
}

}  // namespace

ExitCode verify_command(const Communicator& world, const VerifyOptions& options) {
  std::optional<io::Reference> reference;
  const Config config = comm::collective_guard(world, [&] {
    if (options.reference.empty()) return config::load_config(options.deck, options.overrides);
    reference = io::read_reference((std::filesystem::path(options.reference) / "reference.h5").string());
    return reference_config(options.reference, *reference, options.overrides);
  });
  comm::collective_guard(world, [&] { plan_of(config, world.size()); });
  const bool fp64 = config.train.precision == config::Precision::fp64;
  if (reference)
    return fp64 ? verify_reference<double>(world, config, *reference, options)
                : verify_reference<float>(world, config, *reference, options);
  return fp64 ? verify_deck<double>(world, config, options) : verify_deck<float>(world, config, options);
}

}  // namespace minisp::bench
