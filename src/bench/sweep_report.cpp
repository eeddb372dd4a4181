// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The report of a sweep: on standard output, and as a file.
#include "bench/plan_text.hpp"
#include "bench/sweep_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ostream>

namespace minisp::bench {

namespace {

std::size_t widest_name(const SweepResult& result) {
  std::size_t width = 8;
  for (const auto& here : result.cases) width = std::max(width, here.definition->name.size());
  return width;
}

double median_of(const CaseResult& here, double RoundRecord::*quantity) {
  return spread_of(values_of(here, quantity)).median;
}

/// Percent of the step, medians over rounds; 0 of a case without a round.
double share(const CaseResult& here, double RoundRecord::*seconds) {
  const double step = median_of(here, &RoundRecord::mean_step_seconds);
  return step > 0 ? 100 * median_of(here, seconds) / step : 0;
}

void print_cases(std::ostream& out, const SweepResult& result, std::size_t width) {
  out << fmt::format("\n      {:<{}} {:>6} {:>10} {:>10} {:>10} {:>11} {:>8} {:>8} {:>12}\n", "case", width,
                     "rounds", "step, s", "least", "most", "exchange, %", "its wait", "its wire", "tokens/s");
  for (const auto& here : result.cases) {
    const auto step = spread_of(values_of(here, &RoundRecord::step_seconds));
    out << fmt::format(
        "CASE: {:<{}} {:>6} {:>10.5f} {:>10.5f} {:>10.5f} {:>11.1f} {:>8.1f} {:>8.1f} {:>12.1f}\n",
        here.definition->name, width, step.count, step.median, step.least, step.most,
        100 * median_of(here, &RoundRecord::exchange_fraction), share(here, &RoundRecord::exchange_wait),
        share(here, &RoundRecord::exchange_wire), median_of(here, &RoundRecord::tokens_per_s));
  }
}

/// Who is waited for, and on which ranks moving bytes takes least and longest.
void print_waiting(std::ostream& out, const SweepResult& result, std::size_t width) {
  if (result.provenance.ranks == 1) return;
  out << fmt::format("\n      {:<{}} {:>8} {:>9} {:>8} {:>8}   {}\n", "all collectives", width, "wait, %",
                     "for rank", "of it, %", "wire, %", "by rank");
  for (const auto& here : result.cases) {
    const auto late = rank_means(here, &RoundRecord::waited_for);
    const auto wire = rank_means(here, &RoundRecord::wire_of_rank);
    if (late.empty() || wire.empty()) continue;
    const auto latest = std::max_element(late.begin(), late.end());
    const double all = std::accumulate(late.begin(), late.end(), 0.0);
    out << fmt::format("WAIT: {:<{}} {:>8.1f} {:>9} {:>8.1f} {:>8.1f}   {}\n", here.definition->name, width,
                       share(here, &RoundRecord::wait_seconds), latest - late.begin(),
                       all > 0 ? 100 * *latest / all : 0, share(here, &RoundRecord::wire_seconds),
                       extremes_text(wire, median_of(here, &RoundRecord::mean_step_seconds)));
  }
}

void print_ratios(std::ostream& out, const SweepResult& result, std::size_t width) {
  const auto ratios = result.ratios();
  if (ratios.empty()) return;
  out << fmt::format("\n       {:<{}} {:<{}} {:>6} {:>8} {:>8} {:>8} {:>8} {:>10}\n", "speed-up of", width,
                     "over", width, "rounds", "step", "least", "most", "exchange", "loss diff.");
  for (const auto& ratio : ratios) {
    const auto step = spread_of(ratio.step), exchange = spread_of(ratio.exchange);
    out << fmt::format("RATIO: {:<{}} {:<{}} {:>6} {:>8.4f} {:>8.4f} {:>8.4f} {:>8} {:>10.1e}\n", ratio.name,
                       width, ratio.baseline, width, step.count, step.median, step.least, step.most,
                       exchange.count > 0 ? fmt::format("{:.3f}", exchange.median) : "none",
                       ratio.loss_difference);
  }
}

void write_spread(hid_t object, const std::string& prefix, const Spread& spread) {
  io::write_attribute(object, prefix + "_median", spread.median);
  io::write_attribute(object, prefix + "_least", spread.least);
  io::write_attribute(object, prefix + "_most", spread.most);
  io::write_attribute(object, prefix + "_lower_quartile", spread.lower_quartile);
  io::write_attribute(object, prefix + "_upper_quartile", spread.upper_quartile);
}

std::vector<Index> finished_rounds(const CaseResult& result) {
  std::vector<Index> rounds;
  for (const auto& [round, record] : result.rounds) rounds.push_back(round);
  return rounds;
}

/// (rounds, ranks); nothing where a round lacks it.
void write_of_ranks(hid_t file, const std::string& path, const CaseResult& result,
                    std::vector<double> RoundRecord::*quantity, const char* description) {
  std::vector<double> values;
  const auto ranks = result.rounds.empty() ? 0 : (result.rounds.begin()->second.*quantity).size();
  for (const auto& [round, record] : result.rounds) {
    const auto& of_round = record.*quantity;
    if (of_round.size() != ranks) return;
    values.insert(values.end(), of_round.begin(), of_round.end());
  }
  if (values.empty()) return;
  const auto rounds = static_cast<std::int64_t>(result.rounds.size());
  io::write_dataset(file, path, {rounds, static_cast<std::int64_t>(ranks)}, values.data(), "s", description);
}

void write_phases(hid_t file, const std::string& path, const CaseResult& result) {
  std::map<std::string, std::vector<double>> phases;
  std::size_t done = 0;
  for (const auto& [round, record] : result.rounds) {
    for (const auto& [phase, seconds] : record.phases) {
      phases[phase].resize(done);  // a phase that earlier rounds did not have
      phases[phase].push_back(seconds);
    }
    ++done;
  }
  for (auto& [phase, seconds] : phases) {
    seconds.resize(done);
    io::write_dataset(file, path + "/timers/" + phase, seconds, "s", "Seconds a step of the mean rank");
  }
}

void write_case(hid_t file, const CaseResult& result, const SweepResult& all) {
  const auto& definition = *result.definition;
  const auto path = "/cases/" + definition.name;
  const auto group = io::make_group(file, path);
  if (definition.baseline)
    io::write_attribute(group.get(), "baseline", all.cases[*definition.baseline].definition->name);
  std::vector<std::string> overrides;
  for (const auto& entry : definition.settings) overrides.push_back(config::override_text(entry));
  io::write_texts(file, path + "/overrides", overrides, "key=value that the case sets beside the deck");
  const auto settings = io::make_group(file, path + "/settings");
  if (!result.rounds.empty())
    for (const auto& [key, value] : result.rounds.begin()->second.settings)
      io::write_attribute(settings.get(), key, value);
  io::write_dataset(file, path + "/round", finished_rounds(result), "1", "Number of the round, from 1");
  const auto write = [&](const char* name, double RoundRecord::*quantity, const char* unit,
                         const char* description) {
    const auto values = values_of(result, quantity);
    io::write_dataset(file, path + "/" + name, values, unit, description);
    write_spread(group.get(), name, spread_of(values));
  };
  write("step_seconds", &RoundRecord::step_seconds, "s", "Median of the timed steps, slowest rank");
  write("tokens_per_s", &RoundRecord::tokens_per_s, "1/s", "Tokens of all ranks a second");
  write("exchange_seconds", &RoundRecord::exchange_seconds, "s",
        "Seconds a step in the exchange around attention, mean rank");
  write("exchange_fraction", &RoundRecord::exchange_fraction, "1", "Share of the step in that exchange");
  write("mean_step_seconds", &RoundRecord::mean_step_seconds, "s", "Mean of the timed steps, slowest rank");
  write("exchange_own_seconds", &RoundRecord::exchange_own, "s",
        "Of the exchange in copies and sums of the rank's own");
  write("exchange_wait_seconds", &RoundRecord::exchange_wait, "s",
        "Of the exchange waiting for the last rank to arrive");
  write("exchange_wire_seconds", &RoundRecord::exchange_wire, "s", "Of the exchange moving bytes");
  write("wait_seconds", &RoundRecord::wait_seconds, "s",
        "Seconds a step waiting for the last rank, all collectives, mean rank");
  write("wire_seconds", &RoundRecord::wire_seconds, "s",
        "Seconds a step moving bytes, all collectives, mean rank");
  write("bytes_on_node", &RoundRecord::bytes_on_node, "B",
        "Bytes a step that all ranks sent within their nodes");
  write("bytes_off_node", &RoundRecord::bytes_off_node, "B",
        "Bytes a step that all ranks sent to other nodes");
  write("memory", &RoundRecord::memory, "B", "High-water mark of the worst rank");
  write("memory_predicted", &RoundRecord::memory_predicted, "B", "High-water mark by the formula");
  write_of_ranks(file, path + "/waited_for", result, &RoundRecord::waited_for,
                 "Seconds a step that all ranks together waited for every rank");
  write_of_ranks(file, path + "/wire_of_rank", result, &RoundRecord::wire_of_rank,
                 "Seconds a step that every rank moves bytes, all collectives");
  std::vector<Index> valid;
  for (const auto& [round, record] : result.rounds) valid.push_back(record.invalid ? 0 : 1);
  io::write_dataset(file, path + "/valid", valid, "1", "1: the run is VALID");
  if (!result.rounds.empty()) {
    const auto& first = result.rounds.begin()->second;
    io::write_dataset(file, path + "/loss", first.loss, "nat",
                      "Loss of every step of the first round, warm-up steps first");
    if (first.entropy_rate) io::write_attribute(group.get(), "entropy_rate", *first.entropy_rate);
  }
  write_phases(file, path, result);
}

void write_ratio(hid_t file, const RatioResult& ratio) {
  const auto path = "/ratios/" + ratio.name;
  const auto group = io::make_group(file, path);
  io::write_attribute(group.get(), "baseline", ratio.baseline);
  io::write_attribute(group.get(), "loss_difference", ratio.loss_difference);
  write_spread(group.get(), "step", spread_of(ratio.step));
  io::write_dataset(file, path + "/round", ratio.rounds, "1", "Rounds that both cases have");
  io::write_dataset(file, path + "/step", ratio.step, "1",
                    "Seconds a step of the baseline over those of the case, of the same round");
  if (ratio.exchange.empty()) return;
  write_spread(group.get(), "exchange", spread_of(ratio.exchange));
  io::write_dataset(file, path + "/exchange", ratio.exchange, "1",
                    "The same of the seconds in the exchange around attention");
}

std::uint64_t estimated_bytes(const SweepResult& result) {
  std::uint64_t bytes = (1 << 18) + 4 * result.sweep->text.size() + 256 * result.provenance.hosts.size();
  for (const auto& here : result.cases) {
    bytes += 200 * 1024;  // groups, attributes and datasets of a case and its ratio
    for (const auto& [round, record] : here.rounds)
      bytes += 8 * (record.loss.size() + 48 + record.phases.size() + 2 * record.waited_for.size());
  }
  return bytes;
}

void write_contents(hid_t file, const SweepResult& result) {
  io::write_attribute(file, "format", "miniSP sweep");
  io::write_attribute<std::int64_t>(file, "format_version", 1);
  io::write_attribute<std::int64_t>(file, "rounds", result.sweep->rounds);
  io::write_provenance(file, result.provenance);
  const auto input = io::make_group(file, "/input");
  io::write_attribute(input.get(), "sweep_file", result.sweep->file);
  io::write_attribute(input.get(), "deck_file", result.sweep->deck_file);
  io::write_text(file, "/input/sweep", result.sweep->text, "The sweep as it was read");
  io::write_text(file, "/input/deck", result.cases.front().definition->config.deck_text,
                 "The deck that every case starts from");
  std::vector<std::string> names;
  for (const auto& here : result.cases) names.push_back(here.definition->name);
  io::write_texts(file, "/case_names", names, "Cases in the order of the sweep");
  for (const auto& here : result.cases) write_case(file, here, result);
  for (const auto& ratio : result.ratios()) write_ratio(file, ratio);
  const auto verdict = io::make_group(file, "/verdict");
  io::write_attribute(verdict.get(), "valid", result.invalid().empty());
  io::write_texts(file, "/verdict/reasons", result.invalid(), "Runs that are INVALID, and why");
}

}  // namespace

void print_sweep(std::ostream& out, const SweepResult& result) {
  const auto width = widest_name(result);
  print_cases(out, result, width);
  print_waiting(out, result, width);
  print_ratios(out, result, width);
  const auto reasons = result.invalid();
  for (const auto& reason : reasons) out << "INVALID: " << reason << "\n";
  out << "VALID: " << (reasons.empty() ? "yes" : "no") << "\n";
}

void write_sweep(const std::string& path, const SweepResult& result) {
  io::OutputFile file(MPI_COMM_WORLD, path, true);
  file.write_on_root(estimated_bytes(result), [&](hid_t id) { write_contents(id, result); });
  file.commit();
}

}  // namespace minisp::bench
