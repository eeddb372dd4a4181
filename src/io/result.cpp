// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/result.hpp"

#include <algorithm>
#include <numeric>

namespace minisp::io {

namespace {

/// Upper estimate of what one dataset or group with its attributes takes besides its values.
constexpr std::uint64_t bytes_per_object = 2 * 1024;

void write_input(hid_t file, const InputRecord& input) {
  const auto group = make_group(file, "/input");
  write_attribute(group.get(), "deck_file", input.deck_file);
  write_text(file, "/input/deck", input.deck_text, "The deck as it was read");
  write_texts(file, "/input/overrides", input.overrides, "key=value from the command line");
  const auto settings = make_group(file, "/input/settings");
  for (const auto& [key, value] : input.settings) write_attribute(settings.get(), key, value);
}

void write_metrics(hid_t file, const StepMetrics& metrics) {
  const auto group = make_group(file, "/metrics");
  write_attribute(group.get(), "warmup_steps", metrics.warmup_steps);
  if (metrics.entropy_rate) write_attribute(group.get(), "entropy_rate", *metrics.entropy_rate);
  write_dataset(file, "/metrics/step", metrics.step, "1", "Number of the step, from 0, warm-up steps first");
  write_dataset(file, "/metrics/loss", metrics.loss, "nat",
                "Cross-entropy a valid token, over the global batch, before the step");
  write_dataset(file, "/metrics/grad_norm", metrics.grad_norm, "1",
                "2-norm of the gradient of all parameters, before clipping");
  write_dataset(file, "/metrics/seconds", metrics.seconds, "s", "Wall time of the step on the slowest rank");
  write_dataset(file, "/metrics/tokens_per_s", metrics.tokens_per_s, "1/s", "Tokens of all ranks a second");
  write_dataset(file, "/metrics/learning_rate", metrics.learning_rate, "1", "Learning rate of the step");
}

void write_phases(hid_t file, const std::vector<PhaseRow>& phases) {
  for (const auto& phase : phases) {
    if (phase.seconds.empty()) continue;
    const auto path = "/timers/" + phase.name + "/";
    const auto [least, most] = std::minmax_element(phase.seconds.begin(), phase.seconds.end());
    const double mean = std::accumulate(phase.seconds.begin(), phase.seconds.end(), 0.0) /
                        static_cast<double>(phase.seconds.size());
    const std::string of = " over ranks of the seconds in this phase, timed steps together";
    write_dataset(file, path + "min", std::vector{*least}, "s", "Least" + of);
    write_dataset(file, path + "max", std::vector{*most}, "s", "Most" + of);
    write_dataset(file, path + "mean", std::vector{mean}, "s", "Mean" + of);
    write_dataset(file, path + "per_rank", phase.seconds, "s", "Seconds in this phase on every rank");
  }
}

void write_traffic(hid_t file, const std::vector<TrafficRow>& traffic) {
  for (const auto& row : traffic) {
    const auto path = "/comm/" + row.collective + "/" + row.phase + "/";
    write_dataset(file, path + "calls", row.calls, "1", "Calls on every rank, timed steps together");
    write_dataset(file, path + "bytes_on_node", row.bytes_on_node, "B",
                  "Bytes that every rank sent to ranks of its node");
    write_dataset(file, path + "bytes_off_node", row.bytes_off_node, "B",
                  "Bytes that every rank sent to ranks of other nodes");
    write_dataset(file, path + "expected_bytes", row.expected_bytes, "B",
                  "Bytes that every rank sends by the decomposition's formula");
    write_dataset(file, path + "seconds", row.seconds, "s",
                  "Seconds that every rank was kept, waiting for late ranks included");
    write_dataset(file, path + "own_seconds", row.own, "s", "Of these in copies and sums of the rank's own");
    write_dataset(file, path + "wait_seconds", row.wait, "s", "Of these waiting for the last rank to arrive");
    write_dataset(file, path + "wire_seconds", row.wire, "s",
                  "Of these moving bytes, after the last rank had arrived");
  }
}

void write_arrivals(hid_t file, const ArrivalRecord& arrivals) {
  write_dataset(file, "/arrivals/clock_offset", arrivals.clock_offset, "s",
                "Rank 0's clock less that of every rank, before the timed steps");
  write_dataset(file, "/arrivals/clock_drift", arrivals.clock_drift, "s",
                "Change of the offset during the timed steps");
  write_dataset(file, "/arrivals/clock_error", arrivals.clock_error, "s",
                "Bound on the offset's error: half of the shortest round trip");
  write_dataset(file, "/arrivals/waited_for", arrivals.waited_for, "s",
                "Seconds that all ranks together waited for every rank, timed steps together");
}

void write_figure_of_merit(hid_t file, const FigureOfMerit& figure) {
  const auto group = make_group(file, "/figure_of_merit");
  write_attribute(group.get(), "tokens_per_s", figure.tokens_per_s);
  write_attribute(group.get(), "model_flops_per_s", figure.model_flops_per_s);
  write_attribute(group.get(), "gemm_flops_per_s", figure.gemm_flops_per_s);
  write_attribute(group.get(), "gemm_fraction", figure.gemm_fraction);
  write_attribute(group.get(), "median_step_seconds", figure.median_step_seconds);
}

void write_verdict(hid_t file, const Verdict& verdict) {
  const auto group = make_group(file, "/verdict");
  write_attribute(group.get(), "valid", verdict.valid);
  write_texts(file, "/verdict/reasons", verdict.reasons, "Why the result is INVALID; empty when it is VALID");
  std::vector<std::string> names;
  std::vector<double> values, limits;
  std::vector<std::int64_t> passed;
  for (const auto& check : verdict.checks) {
    names.push_back(check.name);
    values.push_back(check.value);
    limits.push_back(check.limit);
    passed.push_back(check.passed ? 1 : 0);
  }
  write_texts(file, "/verdict/checks/name", names, "What was checked");
  write_dataset(file, "/verdict/checks/value", values, "1", "What was found");
  write_dataset(file, "/verdict/checks/limit", limits, "1", "What is allowed");
  write_dataset(file, "/verdict/checks/passed", passed, "1", "1: the check passed");
}

}  // namespace

std::uint64_t estimated_bytes(const RunResult& result) {
  std::uint64_t objects = 64;
  std::uint64_t values = 0;
  std::uint64_t characters = result.input.deck_text.size() + result.provenance.kokkos_configuration.size() +
                             result.provenance.command_line.size();
  for (const auto& host : result.provenance.hosts) characters += host.size() + 32;
  for (const auto& [name, value] : result.provenance.environment)
    characters += name.size() + value.size() + 32;
  for (const auto& text : result.input.overrides) characters += text.size() + 32;
  for (const auto& [key, value] : result.input.settings) characters += 2 * (key.size() + value.size()) + 512;
  for (const auto& reason : result.verdict.reasons) characters += reason.size() + 32;
  for (const auto& check : result.verdict.checks) characters += check.name.size() + 32;
  values += 6 * result.metrics.step.size() + 3 * result.verdict.checks.size();
  for (const auto& phase : result.phases) values += phase.seconds.size();
  for (const auto& row : result.traffic) values += 9 * row.calls.size();
  values += 2 * result.memory.predicted.size() + 4 * result.arrivals.waited_for.size();
  objects += 5 * result.phases.size() + 11 * result.traffic.size();
  return objects * bytes_per_object + values * sizeof(double) + 2 * characters;
}

void write_result(OutputFile& output, const RunResult& result) {
  output.write_on_root(estimated_bytes(result), [&](hid_t file) {
    write_attribute(file, "format", result_format_name);
    write_attribute<std::int64_t>(file, "format_version", result_format_version);
    write_attribute(file, "precision", result.precision);
    write_attribute(file, "decomposition", result.decomposition);
    write_attribute(file, "optimizer", result.optimizer);
    write_provenance(file, result.provenance);
    write_input(file, result.input);
    write_metrics(file, result.metrics);
    write_phases(file, result.phases);
    write_traffic(file, result.traffic);
    write_arrivals(file, result.arrivals);
    write_dataset(file, "/memory/predicted", result.memory.predicted, "B",
                  "High-water mark a rank by the formula");
    write_dataset(file, "/memory/measured", result.memory.measured, "B", "High-water mark of every rank");
    write_figure_of_merit(file, result.figure_of_merit);
    write_verdict(file, result.verdict);
  });
}

}  // namespace minisp::io
