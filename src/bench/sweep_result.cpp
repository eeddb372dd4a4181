// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sweep_result.hpp"

#include "io/hdf5.hpp"
#include "util/error.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace minisp::bench {

namespace {

double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

void read_phases(hid_t file, double steps, RoundRecord& record) {
  const std::string end = "/mean";
  for (const auto& name : io::list_datasets(file, "/timers")) {
    if (!name.ends_with(end)) continue;
    const auto phase = name.substr(0, name.size() - end.size());
    const double seconds = total(io::read_doubles(file, "/timers/" + name)) / steps;
    record.phases[phase] = seconds;
    if (phase.starts_with("exchange")) record.exchange_seconds += seconds;
  }
  record.exchange_fraction = record.exchange_seconds / record.mean_step_seconds;
}

void add(std::vector<double>& sum, const std::vector<double>& values, double scale) {
  sum.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += scale * values[i];
}

void read_traffic(hid_t file, double steps, RoundRecord& record) {
  for (const auto& name : io::list_datasets(file, "/comm")) {
    const auto values = io::read_doubles(file, "/comm/" + name);
    const auto quantity = name.substr(name.rfind('/') + 1);
    const double all = total(values) / steps, mean = all / static_cast<double>(values.size());
    const double exchange = name.find("/exchange") != std::string::npos ? mean : 0;
    if (quantity == "bytes_on_node") record.bytes_on_node += all;
    if (quantity == "bytes_off_node") record.bytes_off_node += all;
    if (quantity == "own_seconds") record.exchange_own += exchange;
    if (quantity == "wait_seconds") {
      record.exchange_wait += exchange;
      record.wait_seconds += mean;
    }
    if (quantity == "wire_seconds") {
      record.exchange_wire += exchange;
      record.wire_seconds += mean;
      add(record.wire_of_rank, values, 1 / steps);
    }
  }
  if (io::exists(file, "/arrivals/waited_for"))
    add(record.waited_for, io::read_doubles(file, "/arrivals/waited_for"), 1 / steps);
}

double largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

}  // namespace

RoundRecord read_round(const std::string& path) {
  const auto file = io::open_for_reading(path);
  const hid_t id = file.get();
  if (!io::has_attribute(id, "format") ||
      io::read_attribute<std::string>(id, "format") != io::result_format_name)
    throw input_error("is no result of miniSP", path, "Remove it, or choose another sweep.folder");
  RoundRecord record;
  const auto figure = io::open_group(id, "/figure_of_merit");
  record.step_seconds = io::read_attribute<double>(figure.get(), "median_step_seconds");
  record.tokens_per_s = io::read_attribute<double>(figure.get(), "tokens_per_s");
  const auto seconds = io::read_doubles(id, "/metrics/seconds");
  const auto metrics = io::open_group(id, "/metrics");
  const auto warmup = io::read_attribute<std::int64_t>(metrics.get(), "warmup_steps");
  const double steps = static_cast<double>(static_cast<std::int64_t>(seconds.size()) - warmup);
  record.mean_step_seconds = total({seconds.begin() + warmup, seconds.end()}) / steps;
  if (io::has_attribute(metrics.get(), "entropy_rate"))
    record.entropy_rate = io::read_attribute<double>(metrics.get(), "entropy_rate");
  read_phases(id, steps, record);
  read_traffic(id, steps, record);
  record.memory = largest(io::read_doubles(id, "/memory/measured"));
  record.memory_predicted = largest(io::read_doubles(id, "/memory/predicted"));
  record.loss = io::read_doubles(id, "/metrics/loss");
  if (!io::read_attribute<bool>(io::open_group(id, "/verdict").get(), "valid")) {
    const auto reasons = io::read_texts(id, "/verdict/reasons");
    record.invalid = reasons.empty() ? "no reason given" : reasons.front();
  }
  const auto settings = io::open_group(id, "/input/settings");
  for (const auto& key : io::list_attributes(settings.get()))
    record.settings[key] = io::read_attribute<std::string>(settings.get(), key);
  const auto provenance = io::open_group(id, "/provenance");
  record.ranks = io::read_attribute<std::int64_t>(provenance.get(), "ranks");
  record.nodes = io::read_attribute<std::int64_t>(provenance.get(), "nodes");
  return record;
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double fraction) {
    const double place = fraction * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const auto above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
  };
  return {at(0.5), values.front(), values.back(), at(0.25), at(0.75), static_cast<Index>(values.size())};
}

std::vector<double> values_of(const CaseResult& result, double RoundRecord::*quantity) {
  std::vector<double> values;
  for (const auto& [round, record] : result.rounds) values.push_back(record.*quantity);
  return values;
}

std::vector<double> rank_means(const CaseResult& result, std::vector<double> RoundRecord::*quantity) {
  std::vector<double> sum;
  for (const auto& [round, record] : result.rounds) {
    if ((record.*quantity).empty()) return {};
    add(sum, record.*quantity, 1 / static_cast<double>(result.rounds.size()));
  }
  return sum;
}

std::vector<RatioResult> SweepResult::ratios() const {
  std::vector<RatioResult> list;
  for (const auto& here : cases) {
    if (!here.definition->baseline) continue;
    const auto& base = cases[*here.definition->baseline];
    RatioResult ratio{.name = here.definition->name, .baseline = base.definition->name};
    for (const auto& [round, record] : here.rounds) {
      const auto other = base.rounds.find(round);
      if (other == base.rounds.end()) continue;
      ratio.rounds.push_back(round);
      ratio.step.push_back(other->second.step_seconds / record.step_seconds);
      if (record.exchange_seconds > 0 && other->second.exchange_seconds > 0)
        ratio.exchange.push_back(other->second.exchange_seconds / record.exchange_seconds);
      const auto& losses = other->second.loss;
      for (std::size_t i = 0; i < std::min(losses.size(), record.loss.size()); ++i)
        ratio.loss_difference =
            std::max(ratio.loss_difference, std::abs(record.loss[i] - losses[i]) / std::abs(losses[i]));
    }
    if (!ratio.rounds.empty()) list.push_back(std::move(ratio));
  }
  return list;
}

std::vector<std::string> SweepResult::invalid() const {
  std::vector<std::string> reasons;
  for (const auto& here : cases)
    for (const auto& [round, record] : here.rounds)
      if (record.invalid)
        reasons.push_back("case " + here.definition->name + ", round " + std::to_string(round) + ": " +
                          *record.invalid);
  return reasons;
}

}  // namespace minisp::bench
