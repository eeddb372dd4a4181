// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/report.hpp"

#include "bench/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>

namespace minisp::bench {

namespace {

double mean(const std::vector<double>& values) {
  return values.empty()
             ? 0
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Index total(const std::vector<Index>& values) {
  return std::accumulate(values.begin(), values.end(), Index{0});
}

double timed_seconds(const io::StepMetrics& metrics) {
  return std::accumulate(metrics.seconds.begin() + metrics.warmup_steps, metrics.seconds.end(), 0.0);
}

double timed_steps(const io::StepMetrics& metrics) {
  return static_cast<double>(static_cast<Index>(metrics.seconds.size()) - metrics.warmup_steps);
}

void print_phases(std::ostream& out, const io::RunResult& result) {
  const double steps = timed_steps(result.metrics), seconds = timed_seconds(result.metrics);
  out << fmt::format("\n{:<28} {:>10} {:>10} {:>10}  {}\n", "phase, seconds a step", "mean rank", "fastest",
                     "slowest", "share");
  for (const auto& phase : result.phases) {
    const auto [least, most] = std::minmax_element(phase.seconds.begin(), phase.seconds.end());
    out << fmt::format("  {:<26} {:>10.4f} {:>10.4f} {:>10.4f}  {:5.1f} %\n", phase.name,
                       mean(phase.seconds) / steps, *least / steps, *most / steps,
                       100 * mean(phase.seconds) / seconds);
  }
}

double seconds_a_step(const std::vector<double>& of_ranks, double steps) {
  return mean(of_ranks) / steps;
}

void print_traffic(std::ostream& out, const io::RunResult& result) {
  if (result.provenance.ranks == 1) return;
  const double steps = timed_steps(result.metrics);
  out << fmt::format("\n{:<42} {:>8} {:>12} {:>12}  {:>8} {:>8} {:>8} {:>8}\n", "traffic a step, all ranks",
                     "calls", "on node", "off node", "seconds", "own", "wait", "wire");
  for (const auto& row : result.traffic)
    out << fmt::format("  {:<40} {:>8.0f} {:>12} {:>12}  {:>8.4f} {:>8.4f} {:>8.4f} {:>8.4f}\n",
                       row.collective + ", " + row.phase, static_cast<double>(total(row.calls)) / steps,
                       bytes_text(static_cast<double>(total(row.bytes_on_node)) / steps),
                       bytes_text(static_cast<double>(total(row.bytes_off_node)) / steps),
                       seconds_a_step(row.seconds, steps), seconds_a_step(row.own, steps),
                       seconds_a_step(row.wait, steps), seconds_a_step(row.wire, steps));
  out << "  seconds of the mean rank: own copies and sums, waiting for the last rank, moving bytes\n";
}

/// What the collectives' time says of ranks and links, and how far the clocks behind it can be trusted.
void print_arrivals(std::ostream& out, const io::RunResult& result) {
  const auto& arrivals = result.arrivals;
  if (result.provenance.ranks == 1 || arrivals.waited_for.empty()) return;
  const double steps = timed_steps(result.metrics), step = timed_seconds(result.metrics) / steps;
  double wait = 0;
  std::vector<double> wire(arrivals.waited_for.size());  // of every rank
  for (const auto& row : result.traffic) {
    wait += seconds_a_step(row.wait, steps);
    for (std::size_t rank = 0; rank < wire.size(); ++rank) wire[rank] += row.wire[rank] / steps;
  }
  const auto latest = std::max_element(arrivals.waited_for.begin(), arrivals.waited_for.end());
  const double all = std::accumulate(arrivals.waited_for.begin(), arrivals.waited_for.end(), 0.0);
  out << fmt::format("WAIT: {:.1f} % of the step, {:.1f} % of that for rank {}\n", 100 * wait / step,
                     all > 0 ? 100 * *latest / all : 0, latest - arrivals.waited_for.begin());
  out << fmt::format("WIRE: {:.1f} % of the step, {}\n", 100 * mean(wire) / step, extremes_text(wire, step));
  const auto largest = [](const std::vector<double>& values) {
    double most = 0;
    for (const double value : values) most = std::max(most, std::abs(value));
    return most;
  };
  out << fmt::format("CLOCKS: within {:.1f} us of rank 0's, drift {:.1f} us\n",
                     1e6 * largest(arrivals.clock_error), 1e6 * largest(arrivals.clock_drift));
}

/// Who computes the matrix products of this run, and what to do where it is the slow fallback.
void print_products(std::ostream& out, const io::RunResult& result) {
  const auto& p = result.provenance;
  const auto& backend = result.precision == "fp64"   ? p.gemm_fp64
                        : result.precision == "bf16" ? p.gemm_bf16
                                                     : p.gemm_fp32;
  const bool blas = backend.find("BLAS") != std::string::npos;
  out << fmt::format("PRODUCTS: {}{}\n", backend, blas ? fmt::format(", kernel {}", p.blas_kernel) : "");
  if (blas && p.blas_fallback) out << "NOTE: " << p.blas_advice << "\n";
}

void print_checks(std::ostream& out, const io::RunResult& result) {
  out << fmt::format("\n{:<46} {:>10} {:>10}\n", "check", "value", "limit");
  for (const auto& row : result.verdict.checks)
    out << fmt::format("  {:<44} {:>10.3g} {:>10.3g}  {}\n", row.name, row.value, row.limit,
                       row.passed ? "ok" : "FAILED");
  const auto largest = [](const std::vector<Index>& values) {
    return values.empty() ? 0.0 : static_cast<double>(*std::max_element(values.begin(), values.end()));
  };
  out << fmt::format("\nmemory a rank: {} measured, {} by the formula\n",
                     bytes_text(largest(result.memory.measured)),
                     bytes_text(largest(result.memory.predicted)));
}

}  // namespace

double exchange_share(const io::RunResult& result) {
  double seconds = 0;
  for (const auto& phase : result.phases)
    if (phase.name.rfind("exchange", 0) == 0) seconds += mean(phase.seconds);
  return seconds / timed_seconds(result.metrics);
}

void print_report(std::ostream& out, const io::RunResult& result) {
  print_phases(out, result);
  print_traffic(out, result);
  print_checks(out, result);
  const auto& fom = result.figure_of_merit;
  out << fmt::format("EXCHANGE: {:.1f} % of the step\n", 100 * exchange_share(result));
  print_arrivals(out, result);
  out << fmt::format("STEP: {:.4f} s (median of {:.0f})\n", fom.median_step_seconds,
                     timed_steps(result.metrics));
  out << fmt::format(
      "MODEL: {:.2f} GFLOP/s, {:.1f} % of the matrix-product rate ({:.2f} GFLOP/s, {} ranks at once)\n",
      1e-9 * fom.model_flops_per_s, 100 * fom.gemm_fraction, 1e-9 * fom.gemm_flops_per_s,
      result.provenance.ranks);
  print_products(out, result);
  if (!result.provenance.injected.empty())
    out << "INJECTED: " << result.provenance.injected << ". No result of this machine.\n";
  for (const auto& reason : result.verdict.reasons) out << "INVALID: " << reason << "\n";
  out << fmt::format("FOM: {:.1f} tokens/s\n", fom.tokens_per_s);
  out << fmt::format("VALID: {}\n", result.verdict.valid ? "yes" : "no");
}

}  // namespace minisp::bench
