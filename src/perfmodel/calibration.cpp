// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "perfmodel/calibration.hpp"

#include "perfmodel/least_squares.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace minisp::perfmodel {

namespace {

double rate_of(double seconds_per_unit) {
  return seconds_per_unit > 0 ? 1 / seconds_per_unit : no_limit;
}

double median(std::vector<double> values) {
  if (values.empty()) return 1;
  std::sort(values.begin(), values.end());
  return 0.5 * (values[(values.size() - 1) / 2] + values[values.size() / 2]);
}

/// x >= 0 of the least sum of |row . x - 1|, by least squares with weights that are made anew.
std::vector<double> least_relative_errors(const std::vector<std::vector<double>>& rows) {
  std::vector<double> weights(rows.size(), 1), best;
  double least = no_limit;
  for (int round = 0; round < 20; ++round) {
    auto weighted = rows;
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (auto& term : weighted[i]) term *= weights[i];
    const auto x = nonnegative_least_squares(weighted, weights);
    double sum = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double error = std::abs(std::inner_product(rows[i].begin(), rows[i].end(), x.begin(), -1.0));
      sum += error;
      weights[i] = 1 / std::sqrt(std::max(error, 0.01));
    }
    if (sum < least) least = sum, best = x;
  }
  return best;
}

CollectiveCall call_of(const CollectiveSample& s, Index links) {
  return {s.collective, s.peers, s.bytes_per_peer, links};
}

struct CollectiveFit {
  CollectiveRates rates;
  double error = no_limit;
};

/// What a link passes at once in a sample: a gather comes right behind an all-to-all of the same size.
double burst_of(const CollectiveSample& s, Index links, double burst) {
  if (s.collective == Collective::all_to_all) return burst;
  return std::max(0.0, burst - bytes_of_link({Collective::all_to_all, s.peers, s.bytes_per_peer, links}));
}

/// The best rates for links that pass `burst` bytes at once after a pause.
CollectiveFit fit_with_burst(const std::vector<const CollectiveSample*>& samples, Index links, double burst) {
  const std::size_t count = samples.size();
  std::vector<Blocks> blocks;
  std::vector<double> on, off;  // bytes that take the node's memory and its links, by sample
  std::vector<bool> by_link;    // which of the two decides
  for (const auto* s : samples) {
    blocks.push_back(blocks_of(s->collective, s->peers, slowest_class(s->peers), links));
    on.push_back(blocks.back().on_node * s->bytes_per_peer);
    off.push_back(std::max(0.0, blocks.back().link * s->bytes_per_peer - burst_of(*s, links, burst)));
    by_link.push_back(s->peers.node_sends > 0);
  }
  CollectiveFit best;
  for (bool changed = true; changed;) {
    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < count; ++i) {
      rows.push_back({1, blocks[i].peers_on_node, blocks[i].peers_off_node, by_link[i] ? 0 : on[i],
                      by_link[i] ? off[i] : 0});
      for (auto& term : rows.back()) term /= samples[i]->seconds;
    }
    const auto x = least_relative_errors(rows);
    const CollectiveRates found{x[0], x[1], x[2], rate_of(x[3]), rate_of(x[4])};
    double error = 0;
    changed = false;
    for (std::size_t i = 0; i < count; ++i) {
      const auto& s = *samples[i];
      error += std::abs(wire_seconds(found, call_of(s, links), burst_of(s, links, burst)) / s.seconds - 1);
      const bool link = s.peers.node_sends > 0 && off[i] * x[4] >= on[i] * x[3];
      changed = changed || link != by_link[i];
      by_link[i] = link;
    }
    changed = changed && error < best.error;
    if (error < best.error) best = {found, error};
  }
  return best;
}

/// Of exchanges over links that are long against what starts them.
double late_share(const std::vector<const CollectiveSample*>& samples) {
  std::vector<double> shares;
  double longest = 0;
  for (const auto* s : samples)
    if (s->peers.node_sends > 0 && s->last > 0) longest = std::max(longest, s->seconds);
  for (const auto* s : samples)
    if (s->peers.node_sends > 0 && s->last > 0 && s->seconds > 0.02 * longest)
      shares.push_back(std::max(0.0, s->last / s->seconds - 1));
  return shares.empty() ? 0 : median(shares);
}

Work work_in(const StepSample& sample, const std::string& phase) {
  Work sum;
  for (const auto& event :
       step_of(sample.scenario.config, sample.scenario.decomposition, sample.scenario.groups.front().load))
    if (event.computes && event.phase == phase) sum += event.work;
  return sum;
}

/// stretch[i]: by how much the own clock of sample i's phase exceeds its time alone on a core.
PhaseRates fit_phase(const std::vector<StepSample>& samples, const std::string& phase,
                     const std::vector<double>& stretch) {
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto& sample = samples[i];
    const auto measured = sample.own.find(phase);
    if (measured == sample.own.end() || measured->second <= 0) continue;
    const Work work = work_in(sample, phase);
    rows.push_back({work.calls, work.flops, work.bytes, work.exponentials});
    for (auto& term : rows.back()) term *= stretch[i] / measured->second;
  }
  if (rows.empty()) return {};
  const auto x = least_relative_errors(rows);
  return {x[0], rate_of(x[1]), rate_of(x[2]), rate_of(x[3])};
}

/// Of every phase with a collective in every sample: the model's seconds less the measured ones, relative to
/// the step, so that long steps do not decide alone. Gathers of weights are fitted apart.
std::vector<double> collective_errors(const std::vector<StepSample>& samples, const Machine& machine) {
  std::vector<double> errors;
  for (const auto& sample : samples)
    for (const auto& phase : predict(machine, sample.scenario).phases) {
      const auto measured = sample.collectives.find(phase.name);
      if (measured != sample.collectives.end() && phase.name != "gather weights")
        errors.push_back((phase.wait + phase.wire - measured->second) / sample.step);
    }
  return errors;
}

/// What waits add to a collective is linear in the constants but for where bytes that move meanwhile hide
/// them. So by linear steps, from where all waits are long.
void fit_skew(const std::vector<StepSample>& samples, Machine& machine) {
  const auto errors_with = [&](double per_call, double of_work) {
    Machine trial = machine;
    trial.skew.seconds_per_call = per_call;
    trial.skew.share_of_work = of_work;
    return collective_errors(samples, trial);
  };
  SkewRates best = machine.skew;
  double per_call = 1, of_work = 1, least = no_limit;
  for (int round = 0; round < 12; ++round) {
    const auto errors = errors_with(per_call, of_work);
    if (errors.empty()) return;
    const double sum = std::inner_product(errors.begin(), errors.end(), errors.begin(), 0.0);
    if (round > 0 && sum < least) {
      least = sum;
      best.seconds_per_call = per_call;
      best.share_of_work = of_work;
    }
    const double h = 1e-7;
    const auto by_call = errors_with(per_call + h, of_work), by_work = errors_with(per_call, of_work + h);
    std::vector<std::vector<double>> rows;
    std::vector<double> values;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      rows.push_back({(by_call[i] - errors[i]) / h, (by_work[i] - errors[i]) / h});
      values.push_back(rows[i][0] * per_call + rows[i][1] * of_work - errors[i]);
    }
    const auto x = nonnegative_least_squares(rows, values);
    per_call = x[0];
    of_work = x[1];
  }
  machine.skew = best;
}

void fit_exposed_gathers(const std::vector<StepSample>& samples, Machine& machine) {
  std::vector<std::vector<double>> rows;
  std::vector<double> values;
  const std::string phase = "gather weights";
  for (const auto& sample : samples) {
    if (!sample.collectives.count(phase)) continue;
    Machine hidden = machine, exposed = machine;
    hidden.exposed_gathers = 0;
    exposed.exposed_gathers = 1;
    const double none = predict(hidden, sample.scenario).seconds(phase);
    const double all = predict(exposed, sample.scenario).seconds(phase);
    if (all <= none) continue;
    rows.push_back({(all - none) / sample.step});
    values.push_back((sample.collectives.at(phase) - none) / sample.step);
  }
  if (!rows.empty()) machine.exposed_gathers = nonnegative_least_squares(rows, values).front();
}

void widen(Machine& machine, const char* name, double value) {
  auto [range, is_new] = machine.ranges.try_emplace(name, Range{value, value});
  range->second.least = std::min(range->second.least, value);
  range->second.most = std::max(range->second.most, value);
}

}  // namespace

void widen_ranges(const Scenario& s, Machine& machine) {
  const auto& m = s.config.model;
  widen(machine, "ranks", double(s.decomposition.ranks));
  widen(machine, "ranks_per_node", double(s.placement.ranks_per_node));
  widen(machine, "tokens_a_rank", s.groups.front().load.tokens / double(s.decomposition.sequence_degree));
  widen(machine, "sequence_length", double(s.config.train.sequence_length));
  widen(machine, "hidden", double(m.hidden));
  widen(machine, "head_dim", double(m.head_dim));
  widen(machine, "intermediate", double(m.intermediate));
  widen(machine, "vocabulary", double(m.vocabulary));
}

double StepSample::mean_step() const {
  double sum = 0;
  for (const auto& phase : own) sum += phase.second;
  for (const auto& phase : collectives) sum += phase.second;
  return sum;
}

void fit_collectives(const std::vector<CollectiveSample>& samples, Machine& machine) {
  std::vector<const CollectiveSample*> exchanges, gathers;
  for (const auto& sample : samples) {
    (sample.collective == Collective::all_to_all ? exchanges : gathers).push_back(&sample);
    widen(machine, "group_ranks", double(sample.peers.group_ranks));
    widen(machine, "bytes_per_peer", sample.bytes_per_peer);
  }
  if (exchanges.empty()) return;
  CollectiveFit best = fit_with_burst(exchanges, machine.links_per_node, 0);
  machine.link_burst_bytes = 0;
  for (double burst = 1 << 14; burst <= 1 << 24; burst *= std::sqrt(2.0)) {
    const auto fit = fit_with_burst(exchanges, machine.links_per_node, burst);
    if (fit.error >= 0.9 * best.error) continue;  // one constant more has to pay
    best = fit;
    machine.link_burst_bytes = burst;
  }
  machine.all_to_all = best.rates;
  machine.skew.share_of_wire = late_share(exchanges);
  machine.all_gather = fit_with_burst(gathers, machine.links_per_node, machine.link_burst_bytes).rates;
}

namespace {

std::set<std::string> computed_phases(const std::vector<StepSample>& samples) {
  std::set<std::string> phases;
  for (const auto& sample : samples)
    for (const auto& [phase, seconds] : sample.own)
      if (seconds > 0 && work_in(sample, phase).calls > 0) phases.insert(phase);
  return phases;
}

/// Rates for the machine's share. How far a phase is stretched depends on the rates, so it is done in rounds.
void fit_rates(const std::vector<StepSample>& samples, config::Precision precision,
               const std::set<std::string>& phases, Machine& machine) {
  auto& table = machine.compute[config::to_string(precision)];
  const bool shared = machine.share.ranks_per_core > 1;
  for (int round = 0; round < (shared ? 6 : 1); ++round) {
    std::map<std::string, std::vector<double>> stretch;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (round == 0) {
        for (const auto& phase : phases) stretch[phase].push_back(machine.share.ranks_per_core);
        continue;
      }
      Machine alone = machine;
      alone.share = {};
      const auto with = predict(machine, samples[i].scenario), without = predict(alone, samples[i].scenario);
      const auto own = [](const Prediction& p, const std::string& name) {
        for (const auto& phase : p.phases)
          if (phase.name == name) return phase.own;
        return 0.0;
      };
      for (const auto& phase : phases) {
        const double base = own(without, phase);
        stretch[phase].push_back(base > 0 ? own(with, phase) / base : 1);
      }
    }
    for (const auto& phase : phases) table[phase] = fit_phase(samples, phase, stretch[phase]);
    table["default"] = table.count("norm") ? table["norm"] : PhaseRates{};
  }
}

/// Squares of the relative errors of steps, and of phases by their share in the step.
double error_of(const std::vector<StepSample>& samples, const Machine& machine) {
  double sum = 0;
  for (const auto& sample : samples) {
    const auto prediction = predict(machine, sample.scenario);
    sum += std::pow(prediction.step / sample.mean_step() - 1, 2);
    std::map<std::string, double> measured = sample.own;
    for (const auto& [phase, seconds] : sample.collectives) measured[phase] += seconds;
    for (const auto& [phase, seconds] : measured)
      sum += std::pow((prediction.seconds(phase) - seconds) / sample.mean_step(), 2);
  }
  return sum;
}

}  // namespace

void fit_steps(const std::vector<StepSample>& samples, config::Precision precision, Machine& machine) {
  const auto phases = computed_phases(samples);
  const auto fit = [&](double turn) {
    Machine trial = machine;
    trial.share.seconds_per_turn = turn;
    fit_rates(samples, precision, phases, trial);
    fit_skew(samples, trial);
    return trial;
  };
  double turn = 0;
  if (machine.share.ranks_per_core > 1) {
    const auto error = [&](const std::vector<double>& x) { return error_of(samples, fit(std::exp(x[0]))); };
    turn = std::exp(simplex_minimum(error, {std::log(0.004)}, 0.4, 30)[0]);
  }
  machine = fit(turn);
  fit_exposed_gathers(samples, machine);
  std::vector<double> ratios;
  for (const auto& sample : samples) ratios.push_back(sample.step / sample.mean_step());
  machine.slowest_over_mean = std::max(1.0, median(ratios));
  for (const auto& sample : samples) widen_ranges(sample.scenario, machine);
}

std::vector<std::string> residuals(const std::vector<StepSample>& steps,
                                   const std::vector<CollectiveSample>& collectives, const Machine& machine) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{:<28} {:>11} {:>11} {:>8}", "step", "measured, s", "model, s", "off"));
  std::map<std::string, std::vector<double>> phases;
  std::map<std::string, double> shares;
  for (const auto& sample : steps) {
    const auto prediction = predict(machine, sample.scenario);
    lines.push_back(fmt::format("{:<28} {:>11.4g} {:>11.4g} {:>+7.1f} %", sample.name, sample.step,
                                prediction.step, 100 * (prediction.step / sample.step - 1)));
    std::map<std::string, double> measured = sample.own;
    for (const auto& [phase, seconds] : sample.collectives) measured[phase] += seconds;
    for (const auto& [phase, seconds] : measured) {
      if (seconds <= 0) continue;
      phases[phase].push_back(prediction.seconds(phase) / seconds - 1);
      shares[phase] = std::max(shares[phase], seconds / sample.step);
    }
  }
  lines.push_back("");
  lines.push_back(fmt::format("{:<28} {:>11} {:>11} {:>11}", "phase", "median off", "worst off", "share <="));
  for (auto& [phase, errors] : phases) {
    std::sort(errors.begin(), errors.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
    lines.push_back(fmt::format("{:<28} {:>9.1f} % {:>+9.1f} % {:>9.1f} %", phase,
                                100 * std::abs(errors[errors.size() / 2]), 100 * errors.back(),
                                100 * shares[phase]));
  }
  if (!collectives.empty()) lines.push_back("");
  if (!collectives.empty())
    lines.push_back(fmt::format("{:<11} {:>6} {:>8} {:>8} {:>10} {:>12} {:>12} {:>8}", "collective", "ranks",
                                "on node", "off node", "bytes/peer", "measured, s", "model, s", "off"));
  for (const auto& s : collectives) {
    const bool a2a = s.collective == Collective::all_to_all;
    const double model =
        wire_seconds(a2a ? machine.all_to_all : machine.all_gather, call_of(s, machine.links_per_node),
                     burst_of(s, machine.links_per_node, machine.link_burst_bytes));
    const auto one = slowest_class(s.peers);
    lines.push_back(fmt::format("{:<11} {:>6} {:>8} {:>8} {:>10.0f} {:>12.3e} {:>12.3e} {:>+7.1f} %",
                                a2a ? "all_to_all" : "all_gather", s.peers.group_ranks, one.on_node,
                                one.off_node, s.bytes_per_peer, s.seconds, model,
                                100 * (model / s.seconds - 1)));
  }
  return lines;
}

}  // namespace minisp::perfmodel
