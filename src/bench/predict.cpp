// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/predict.hpp"

#include "bench/commands.hpp"
#include "bench/plan_text.hpp"
#include "config/deck.hpp"
#include "config/sweep.hpp"
#include "io/output_file.hpp"
#include "io/parts_file.hpp"
#include "train/trainer.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

namespace minisp::bench {

namespace {

using config::Config;
using perfmodel::LengthRun;
using perfmodel::Machine;
using perfmodel::Prediction;

std::vector<LengthRun> read_lengths(const std::string& file) {
  std::ifstream in(file);
  if (!in)
    throw input_error("cannot be read", file, "Name a file of lengths, a line each: LENGTH or LENGTH COUNT");
  std::vector<LengthRun> runs;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto content = line.substr(0, line.find('#'));
    if (content.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::istringstream words(content);
    Index length = 0, count = 1;
    std::string rest;
    const bool has_length = static_cast<bool>(words >> length);
    if (has_length && !(words >> count) && words.eof()) {
      count = 1;
      words.clear();
    }
    if (!has_length || words.fail() || words >> rest || length < 1 || count < 1 || length > 1'000'000'000 ||
        count > 1'000'000'000)
      throw input_error("is no line of lengths", fmt::format("{}:{}", file, number),
                        "Write LENGTH or LENGTH COUNT, whole numbers from 1 to 1e9");
    runs.push_back({double(length), count});
  }
  if (runs.empty()) throw input_error("holds no length", file, "Write a line for each sequence of the batch");
  return runs;
}

bool is_sweep(const std::string& file) {
  return config::read_toml_tree(config::read_deck_text(file), file).find("sweep") != nullptr;
}

std::vector<PredictCase> read_cases(const PredictOptions& options, const Machine& machine, int job_ranks) {
  std::vector<PredictCase> cases;
  Index ranks = options.ranks > 0 ? options.ranks : job_ranks;
  if (is_sweep(options.input)) {
    const auto sweep = config::load_sweep(options.input, options.overrides);
    if (options.ranks == 0 && sweep.ranks > 0) ranks = sweep.ranks;
    for (const auto& one : sweep.cases) cases.push_back({one.name, one.config, {}, {}, {}});
  } else {
    cases.push_back({std::filesystem::path(options.input).stem().string(),
                     config::load_config(options.input, options.overrides),
                     {},
                     {},
                     {}});
  }
  for (auto& one : cases) {
    one.placement = {ranks, options.ranks_per_node > 0 ? options.ranks_per_node : machine.ranks_per_node,
                     options.strided ? perfmodel::Mapping::strided : perfmodel::Mapping::contiguous};
    one.lengths_file = options.lengths;
    if (!options.lengths.empty()) one.lengths = read_lengths(options.lengths);
  }
  return cases;
}

double share(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

void print_prediction(std::ostream& out, const PredictCase& one, const parallel::Plan& plan,
                      const Prediction& prediction) {
  out << fmt::format("\ncase     {}\nplan     {}\n", one.name, describe(plan));
  const auto groups = perfmodel::consecutive_groups(one.placement, plan.sequence_degree);
  const Index straddling = groups.straddling_ranks();
  out << fmt::format(
      "nodes    {} of {} ranks, {}{}\n", one.placement.nodes(), one.placement.ranks_per_node,
      one.placement.mapping == perfmodel::Mapping::strided ? "dealt out in turn" : "node by node",
      plan.sequence_degree == 1 ? std::string()
      : straddling == 0         ? "; no group leaves its node"
                                : fmt::format("; {} ranks in groups that leave their node", straddling));
  out << fmt::format("\n{:<28} {:>10} {:>10} {:>10} {:>10}  {}\n", "phase, seconds a step", "own", "wait",
                     "wire", "sum", "share");
  double wait = 0, wire = 0;
  for (const auto& phase : prediction.phases) {
    out << fmt::format("  {:<26} {:>10.4g} {:>10.4g} {:>10.4g} {:>10.4g}  {:5.1f} %\n", phase.name, phase.own,
                       phase.wait, phase.wire, phase.total(), share(phase.total(), prediction.step));
    wait += phase.wait;
    wire += phase.wire;
  }
  const auto& t = one.config.train;
  const double tokens = one.lengths.empty() ? double(t.batch * t.sequence_length * t.accumulation) : [&] {
    double sum = 0;
    for (const auto& run : one.lengths) sum += run.length * double(run.sequences * t.accumulation);
    return sum;
  }();
  out << fmt::format("memory a rank: {} by the formula\n", bytes_text(memory_of(one.config, plan)));
  for (const auto& note : prediction.notes) out << "NOTE: " << note << "\n";
  out << fmt::format("EXCHANGE: {:.1f} % of the step\n", share(prediction.all_to_all, prediction.step));
  out << fmt::format("WAIT: {:.1f} % of the step\nWIRE: {:.1f} % of the step\n", share(wait, prediction.step),
                     share(wire, prediction.step));
  out << fmt::format("STEP: {:.4g} s (predicted)\nFOM: {:.1f} tokens/s (predicted)\n", prediction.step,
                     tokens / prediction.step);
}

void add_rows(const std::string& name, const Prediction& prediction, std::string& csv) {
  for (const auto& phase : prediction.phases)
    csv += fmt::format("{},{},{:.6g}\n", name, phase.name, phase.total());
  csv +=
      fmt::format("{0},all_to_all,{1:.6g}\n{0},step,{2:.6g}\n", name, prediction.all_to_all, prediction.step);
}

}  // namespace

perfmodel::Scenario scenario_of(const PredictCase& one, const parallel::Plan& plan) {
  const perfmodel::Decomposition decomposition{plan.ranks, plan.sequence_degree, plan.sharding,
                                               plan.shard_ranks};
  if (one.lengths.empty()) return perfmodel::equal_lengths(one.config, decomposition, one.placement);
  return perfmodel::unequal_lengths(one.config, decomposition, one.placement, one.lengths, one.lengths_file);
}

double memory_of(const Config& config, const parallel::Plan& plan) {
  return train::with_precision(config.train.precision, [&]<class T>() {
    return static_cast<double>(train::Trainer<T>::predict_memory(config, plan, 0).total());
  });
}

ExitCode predict_command(const PredictOptions& options, int job_ranks, std::ostream& out) {
  auto machine = perfmodel::read_machine(options.machine);
  machine.all_to_all.bytes_per_s_off_node *= options.link_factor;
  machine.all_gather.bytes_per_s_off_node *= options.link_factor;
  const auto cases = read_cases(options, machine, job_ranks);
  if (!options.csv.empty()) io::check_output_path(options.csv, options.overwrite);
  out << fmt::format("machine  {} ({})\n", machine.name, machine.origin);
  if (options.link_factor != 1)
    out << fmt::format("links    off the node with {:g} times its bandwidth\n", options.link_factor);
  std::string csv = "case,phase,seconds\n";
  for (const auto& one : cases) {
    const auto& c = one.config;
    if (options.plans) {
      print_plans(out, machine, one);
      continue;
    }
    const auto plan = parallel::make_plan_outline(c.parallel, static_cast<int>(one.placement.ranks), c.model,
                                                  c.train.batch, c.train.sequence_length);
    const auto prediction = predict(machine, scenario_of(one, plan));
    print_prediction(out, one, plan, prediction);
    add_rows(one.name, prediction, csv);
  }
  if (!options.csv.empty()) {
    io::write_text_file(options.csv, csv);
    out << "results  " << options.csv << "\n";
  }
  return ExitCode::valid;
}

}  // namespace minisp::bench
