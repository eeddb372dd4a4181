// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/commands.hpp"
#include "bench/compare.hpp"
#include "bench/plan_text.hpp"
#include "comm/agree.hpp"
#include "comm/scalars.hpp"
#include "config/deck.hpp"
#include "config/toml_reader.hpp"
#include "io/provenance.hpp"
#include "io/reference_file.hpp"
#include "train/recorder.hpp"
#include "train/self_check.hpp"
#include "train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
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

/// Largest relative error that is let pass: by name and kind of the tensor and the optimizer steps behind it.
using Tolerance = std::function<double(const std::string& name, TensorKind kind, const std::string& optimizer,
                                       Index optimizer_steps)>;

Tolerance by_precision(const std::string& precision) {
  return [precision](const std::string&, TensorKind kind, const std::string& optimizer, Index steps) {
    return default_tolerance(kind, precision, optimizer, steps);
  };
}

// Errors of bf16 have no size of their own: they depend on how the model at hand passes rounding on. So a run
// on many ranks is judged by the error of one rank (twice as much: the sums are the same, in another order),
// and one rank by the error that rounding the weights alone makes in fp64. Weights are one of about ten
// tensors a block that are rounded to bf16 on the way forward, with as many on the way back: if all count
// alike and add up as independent errors do, sqrt(20) = 4.5 times the error; twice that is let pass.
constexpr double many_ranks_factor = 2, one_rank_factor = 9;
// Root mean square of the relative error of rounding to bf16 (2^-8 at most): what is stored errs by that
// much, however well it was computed.
constexpr double bf16_roundoff = 1.0 / 512;

/// `factor` times the error that the tensor of the same name has in `measured`, which was judged by nothing.
Tolerance by_error_of(const ComparisonReport& measured, double factor) {
  std::map<std::string, double> errors;
  for (const auto& tensor : measured.tensors) errors[tensor.name] = tensor.relative_error;
  return [errors, factor](const std::string& name, TensorKind kind, const std::string& optimizer, Index) {
    // The gradient of a key bias is noise about an exact zero, which AdamW makes steps of full length from.
    if (kind == TensorKind::key_bias && optimizer == "adamw") return std::numeric_limits<double>::infinity();
    return factor * std::max(errors.at(name), bf16_roundoff);
  };
}

double unjudged(const std::string&, TensorKind, const std::string&, Index) {
  return std::numeric_limits<double>::infinity();
}

/// The failing tensors of the run that is to be the measure of another are that one's failures.
void add_failures(const std::string& run, const ComparisonReport& judged, ComparisonReport& report) {
  for (const auto& failure : judged.failures) report.failures.push_back(run + ": " + failure);
  for (const auto& tensor : judged.tensors)
    if (!tensor.passed())
      report.failures.push_back(fmt::format("{}: {} errs by {:.2e}, {:.2e} is explained by rounding", run,
                                            tensor.name, tensor.relative_error, tensor.tolerance));
}

/// The deck on one rank.
Config alone(const Config& config) {
  Config alone = config;
  alone.parallel = {};
  return alone;
}

/// The deck on one rank in fp64, whose weights are to be rounded to bf16.
Config exact(const Config& config) {
  Config exact = alone(config);
  exact.train.precision = config::Precision::fp64;
  exact.train.gradient_precision = config::GradientPrecision::model;
  return exact;
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

/// What is compared of a run: a step's gradients, and the losses, norms and weights of some optimizer steps.
struct Outcome {
  struct Tensor {
    std::string name;
    TensorKind kind;
    io::Shape shape;
    Index steps_behind;
    std::vector<double> values;
  };
  std::vector<Tensor> tensors;
};

/// Collective over the training's ranks; empty but on rank 0.
template <class T>
Outcome train_and_collect(Training<T>& training, const config::Architecture& architecture) {
  const bool collects = training.mesh.rank() == 0;
  auto& trainer = training.trainer;
  Outcome outcome;
  std::vector<double> losses, norms;
  const auto take = [&](const train::StepResult& result) {
    losses.push_back(result.loss);
    norms.push_back(result.gradient_norm);
  };
  take(trainer.compute_gradients());
  const auto gradients = trainer.gradients();
  if (collects)
    for (const auto& entry : trainer.layout().entries())
      outcome.tensors.push_back(
          {"gradients/" + entry.name, TensorKind::gradient, entry.shape, 0, tensor_of(entry, gradients)});
  for (Index step = 0; step < optimizer_steps; ++step) take(trainer.step());
  const auto weights = trainer.weights();
  if (!collects) return outcome;
  const io::Shape steps{static_cast<Index>(losses.size())};
  outcome.tensors.push_back({"loss", TensorKind::loss, steps, optimizer_steps, losses});
  outcome.tensors.push_back({"gradient norm", TensorKind::gradient_norm, steps, optimizer_steps, norms});
  for (const auto& entry : trainer.layout().entries())
    outcome.tensors.push_back({"weights/" + entry.name, weight_kind(architecture, entry.name), entry.shape,
                               optimizer_steps, tensor_of(entry, weights)});
  return outcome;
}

void compare_outcomes(const Outcome& a, const Outcome& b, const std::string& optimizer,
                      const Tolerance& tolerance, ComparisonReport& report) {
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const auto& t = a.tensors[i];
    report.tensors.push_back(compare_values(t.name, t.kind, t.shape, t.values, b.tensors[i].values,
                                            tolerance(t.name, t.kind, optimizer, t.steps_behind)));
  }
}

template <class T>
Outcome outcome_alone(const Config& config, const train::TokenSource& tokens, bool rounds_weights = false) {
  const auto self = Communicator::self();
  Training<T> training(self, config, tokens);
  if (rounds_weights) training.trainer.template round_weights<bfloat16>();
  return train_and_collect(training, config.model);
}

template <class T>
ExitCode verify_deck(const Communicator& world, const Config& config, const VerifyOptions& options) {
  const auto tokens = comm::collective_guard(world, [&] { return train::make_token_source(config); });
  const std::string optimizer = config::to_string(config.train.optimizer);
  ComparisonReport report;
  report.file_a = report.file_b = options.deck;
  report.precision = config::to_string(config.train.precision);
  const auto training = make_training<T>(world, config, *tokens);
  report.title_a = describe(training->mesh.plan());
  report.title_b = is_mixed<T> ? "one rank in fp64" : "one rank";
  const auto outcome = train_and_collect(*training, config.model);
  // One rank computes alone while the others wait.
  comm::collective_guard(world, [&] {
    if (world.rank() != 0) return;
    const auto one_rank = outcome_alone<T>(alone(config), *tokens);
    if constexpr (is_mixed<T>) {
      const auto truth = outcome_alone<double>(exact(config), *tokens);
      ComparisonReport rounded, one;
      compare_outcomes(outcome_alone<double>(exact(config), *tokens, true), truth, optimizer, unjudged,
                       rounded);
      compare_outcomes(one_rank, truth, optimizer, by_error_of(rounded, one_rank_factor), one);
      add_failures("one rank", one, report);
      compare_outcomes(outcome, truth, optimizer, by_error_of(one, many_ranks_factor), report);
    } else {
      compare_outcomes(outcome, one_rank, optimizer, by_precision(report.precision), report);
    }
  });
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
  return config::parse_config(
      fmt::format("[model]\nfolder = {}\nweights = \"folder\"\n"
                  "[data]\nsource = \"tokens\"\nfile = {}\ntoken_type = \"uint16\"\nrow_stride = {}\n"
                  "end_of_document = {}\n"
                  "[train]\nbatch = {}\nsequence_length = {}\nprecision = \"fp64\"\n",
                  config::toml_quoted(folder),
                  config::toml_quoted((std::filesystem::path(folder) / "tokens.bin").string()), length + 1,
                  end_of_document, sequences, length),
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
                      const io::Reference& reference, bool rounds_weights, const Tolerance& by_name,
                      ComparisonReport& report) {
  const auto training = make_training<T>(world, config, tokens);
  if (rounds_weights) training->trainer.template round_weights<bfloat16>();
  train::Recorder<T> recorder(training->mesh, 1,
                              [&](const std::string& name) { return reference.has(name); });
  training->trainer.observe(recorder.observer());
  const auto result = training->trainer.compute_gradients();
  const auto tolerance = [&](const std::string& name, TensorKind kind) { return by_name(name, kind, "", 0); };
  compare_numbers(reference, "loss", TensorKind::loss, {result.loss}, tolerance("loss", TensorKind::loss),
                  report);
  compare_numbers(reference, "gradient_norm", TensorKind::gradient_norm, {result.gradient_norm},
                  tolerance("gradient_norm", TensorKind::gradient_norm), report);
  if (static_cast<double>(result.valid_tokens) != reference.scalar("valid_tokens"))
    report.failures.push_back(fmt::format("{} valid tokens, the reference has {}", result.valid_tokens,
                                          reference.scalar("valid_tokens")));
  for (const auto& name : recorder.names()) {
    const auto kind = recorded_kind(name);
    compare_with(reference, name, kind, recorder.gather(name), tolerance(name, kind), report);
  }
  const auto gradients = training->trainer.gradients();
  for (const auto& entry : training->trainer.layout().entries()) {
    const std::string name = "gradients/" + entry.name;
    compare_with(reference, name, TensorKind::gradient, tensor_of(entry, gradients),
                 tolerance(name, TensorKind::gradient), report);
  }
}

/// Losses, norms and weights of five steps on the same batch.
template <class T>
Index compare_steps(const Communicator& world, Config config, config::OptimizerKind kind,
                    const train::TokenSource& tokens, const io::Reference& reference, bool rounds_weights,
                    const Tolerance& by_name, ComparisonReport& report) {
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
  if (rounds_weights) training->trainer.template round_weights<bfloat16>();
  std::vector<double> losses, norms;
  for (Index step = 0; step < optimizer_steps; ++step) {
    const auto result = training->trainer.step();
    losses.push_back(result.loss);
    norms.push_back(result.gradient_norm);
  }
  const auto tolerance = [&](const std::string& name, TensorKind k) {
    return by_name(name, k, optimizer, optimizer_steps);
  };
  compare_numbers(reference, group + "@losses", TensorKind::loss, losses,
                  tolerance(group + "@losses", TensorKind::loss), report);
  compare_numbers(reference, group + "@gradient_norms", TensorKind::gradient_norm, norms,
                  tolerance(group + "@gradient_norms", TensorKind::gradient_norm), report);
  const auto weights = training->trainer.weights();
  for (const auto& entry : training->trainer.layout().entries()) {
    const auto weight = weight_kind(config.model, entry.name);
    const std::string name = group + "/" + entry.name;
    compare_with(reference, name, weight, tensor_of(entry, weights), tolerance(name, weight), report);
  }
  return train::ranks_that_differ<T>(world, weights);
}

/// Everything that the reference holds; the number of ranks with other weights.
template <class T>
Index compare_reference(const Communicator& world, const Config& config, const train::TokenSource& tokens,
                        const io::Reference& reference, bool rounds_weights, const Tolerance& tolerance,
                        ComparisonReport& report) {
  compare_one_step<T>(world, config, tokens, reference, rounds_weights, tolerance, report);
  Index differ = 0;
  for (const auto kind : {config::OptimizerKind::sgd, config::OptimizerKind::adamw})
    differ += compare_steps<T>(world, config, kind, tokens, reference, rounds_weights, tolerance, report);
  return differ;
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
  Tolerance tolerance = by_precision(report.precision);
  if constexpr (is_mixed<T>) {
    // The same on every rank, each alone: the references are small.
    const auto self = Communicator::self();
    ComparisonReport rounded, one;
    compare_reference<double>(self, exact(config), *tokens, reference, true, unjudged, rounded);
    compare_reference<T>(self, alone(config), *tokens, reference, false,
                         by_error_of(rounded, one_rank_factor), one);
    add_failures("one rank", one, report);
    tolerance = by_error_of(one, many_ranks_factor);
  }
  const Index differ = compare_reference<T>(world, config, *tokens, reference, false, tolerance, report);
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
  return train::with_precision(config.train.precision, [&]<class T>() {
    return reference ? verify_reference<T>(world, config, *reference, options)
                     : verify_deck<T>(world, config, options);
  });
}

}  // namespace minisp::bench
