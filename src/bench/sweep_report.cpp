// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The report of a sweep: on standard output, and as a file.
#include "bench/sweep_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

namespace minisp::bench {

namespace {

std::size_t widest_name(const SweepResult& result) {
  std::size_t width = 8;
  for (const auto& here : result.cases) width = std::max(width, here.definition->name.size());
  return width;
}

void print_cases(std::ostream& out, const SweepResult& result, std::size_t width) {
  out << fmt::format("\n      {:<{}} {:>6} {:>10} {:>10} {:>10} {:>11} {:>12}\n", "case", width, "rounds",
                     "step, s", "least", "most", "exchange, %", "tokens/s");
  for (const auto& here : result.cases) {
    const auto step = spread_of(values_of(here, &RoundRecord::step_seconds));
    out << fmt::format("CASE: {:<{}} {:>6} {:>10.5f} {:>10.5f} {:>10.5f} {:>11.1f} {:>12.1f}\n",
                       here.definition->name, width, step.count, step.median, step.least, step.most,
                       100 * spread_of(values_of(here, &RoundRecord::exchange_fraction)).median,
                       spread_of(values_of(here, &RoundRecord::tokens_per_s)).median);
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
  write("bytes_on_node", &RoundRecord::bytes_on_node, "B",
        "Bytes a step that all ranks sent within their nodes");
  write("bytes_off_node", &RoundRecord::bytes_off_node, "B",
        "Bytes a step that all ranks sent to other nodes");
  write("memory", &RoundRecord::memory, "B", "High-water mark of the worst rank");
  std::vector<Index> valid;
  for (const auto& [round, record] : result.rounds) valid.push_back(record.invalid ? 0 : 1);
  io::write_dataset(file, path + "/valid", valid, "1", "1: the run is VALID");
  if (!result.rounds.empty())
    io::write_dataset(file, path + "/loss", result.rounds.begin()->second.loss, "nat",
                      "Loss of every step of the first round, warm-up steps first");
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
    bytes += 160 * 1024;  // groups, attributes and datasets of a case and its ratio
    for (const auto& [round, record] : here.rounds)
      bytes += 8 * (record.loss.size() + 32 + record.phases.size());
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
