// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/plan_text.hpp"
#include "bench/run.hpp"
#include "bench/sweep_result.hpp"
#include "comm/agree.hpp"
#include "comm/scalars.hpp"
#include "config/deck.hpp"
#include "io/provenance.hpp"
#include "train/token_source.hpp"
#include "train/trainer.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <system_error>

namespace minisp::bench {

namespace {

using comm::Communicator;
using config::SweepCase;
using config::SweepConfig;

std::string case_folder(const SweepConfig& sweep, const SweepCase& one) {
  return sweep.folder + "/" + one.name;
}

std::string round_file(const SweepConfig& sweep, const SweepCase& one, Index round) {
  return case_folder(sweep, one) + "/round-" + std::to_string(round) + ".h5";
}

/// Cases to run: those whose names contain `only`, and what they are compared with.
std::vector<bool> selected_cases(const SweepConfig& sweep, const std::string& only) {
  std::vector<bool> selected(sweep.cases.size(), only.empty());
  bool any = only.empty();
  for (std::size_t i = 0; i < sweep.cases.size(); ++i) {
    if (sweep.cases[i].name.find(only) == std::string::npos) continue;
    any = selected[i] = true;
    if (sweep.cases[i].baseline) selected[*sweep.cases[i].baseline] = true;
  }
  if (!any)
    throw input_error("no case's name contains '" + only + "'", "command line: --only",
                      "Names of cases: " + sweep.cases.front().name + ", ..., " + sweep.cases.back().name);
  return selected;
}

/// Before anything runs: every case's plan, tokens and files that decks name.
std::vector<parallel::Plan> check_cases(const SweepConfig& sweep, int ranks) {
  std::vector<parallel::Plan> plans;
  for (const auto& one : sweep.cases) {
    try {
      plans.push_back(plan_of(one.config, ranks));
      train::make_token_source(one.config);
    } catch (const Error& error) {
      throw Error(error.code(), "case " + one.name + ": " + error.problem(), error.where(), error.remedy());
    }
  }
  return plans;
}

int ranks_for(const SweepConfig& sweep, const SweepOptions& options, int ranks_here) {
  if (options.dry_run && options.ranks > 0) return static_cast<int>(options.ranks);
  if (options.dry_run && sweep.ranks > 0) return static_cast<int>(sweep.ranks);
  if (sweep.ranks > 0 && sweep.ranks != ranks_here)
    throw input_error(fmt::format("the sweep is for {} ranks, and this job has {}", sweep.ranks, ranks_here),
                      sweep.file + ": sweep.ranks",
                      fmt::format("Start it with mpirun -n {0}, or set sweep.ranks={1}, or 0 for any number",
                                  sweep.ranks, ranks_here));
  return ranks_here;
}

void print_plans(const SweepConfig& sweep, const std::vector<parallel::Plan>& plans) {
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const auto& one = sweep.cases[i];
    const auto memory = train::with_precision(one.config.train.precision, [&]<class T>() {
      return train::Trainer<T>::predict_memory(one.config, plans[i], 0).total();
    });
    std::cout << fmt::format("PLAN: {}  {}, {} a rank\n", one.name, describe(plans[i]),
                             bytes_text(static_cast<double>(memory)));
  }
}

/// A result that is there has to be that of the case as it is now: an old file under a changed sweep would be
/// another experiment's number.
void require_same_case(const RoundRecord& record, const SweepCase& one, const Communicator& world,
                       const std::string& file) {
  const std::string remedy = "Choose another sweep.folder, or remove the file to run the case again";
  for (const auto& [key, value] : config::settings(one.config)) {
    if (key.rfind("output.", 0) == 0) continue;
    const auto stored = record.settings.find(key);
    const auto was = stored == record.settings.end() ? std::string("not set") : stored->second;
    if (was != value)
      throw input_error(fmt::format("the result there has {} = {}, the case now {}", key, was, value), file,
                        remedy);
  }
  if (record.ranks != world.size() || record.nodes != world.topology().nodes())
    throw input_error(fmt::format("the result there is of {} ranks on {} nodes, this job has {} on {}",
                                  record.ranks, record.nodes, world.size(), world.topology().nodes()),
                      file, remedy);
}

/// Rank 0: makes the folders and reads what earlier runs of the sweep have finished.
void find_finished(const Communicator& world, const SweepConfig& sweep, SweepResult& result) {
  for (auto& here : result.cases) {
    std::error_code failure;
    std::filesystem::create_directories(case_folder(sweep, *here.definition), failure);
    if (failure)
      throw input_error("the folder cannot be made: " + failure.message(),
                        case_folder(sweep, *here.definition), "Choose another sweep.folder");
    for (Index round = 1; round <= sweep.rounds; ++round) {
      const auto file = round_file(sweep, *here.definition, round);
      if (!std::filesystem::exists(file)) continue;
      auto record = read_round(file);
      require_same_case(record, *here.definition, world, file);
      here.rounds.emplace(round, std::move(record));
    }
  }
}

class Sweep {
 public:
  Sweep(const Communicator& world, const SweepConfig& sweep, const SweepOptions& options,
        std::vector<parallel::Plan> plans)
      : world_(world),
        sweep_(sweep),
        options_(options),
        plans_(std::move(plans)),
        selected_(selected_cases(sweep, options.only)),
        self_checks_(sweep.cases.size()) {
    result_.sweep = &sweep;
    for (const auto& one : sweep.cases) result_.cases.push_back({&one, {}});
  }

  ExitCode run() {
    comm::collective_guard(world_, [&] {
      if (world_.rank() == 0) find_finished(world_, sweep_, result_);
    });
    result_.provenance = io::gather_provenance(MPI_COMM_WORLD, options_.command_line);
    result_.provenance.nodes = world_.topology().nodes();
    for (Index round = 1; round <= sweep_.rounds; ++round) {
      bool news = false;
      for (std::size_t i = 0; i < sweep_.cases.size(); ++i) news = run_case(i, round) || news;
      if (news || round == sweep_.rounds) write_sweep(sweep_.folder + "/sweep.h5", result_);
    }
    if (world_.rank() == 0) {
      print_sweep(std::cout, result_);
      std::cout << "results  " << sweep_.folder << "/sweep.h5\n" << std::flush;
    }
    const bool valid = comm::maximum(world_, Index{!result_.invalid().empty()}) == 0;
    return valid ? ExitCode::valid : ExitCode::invalid;
  }

 private:
  /// Whether there was something to do.
  bool run_case(std::size_t i, Index round) {
    auto& here = result_.cases[i];
    const bool finished = comm::maximum(world_, Index{here.rounds.count(round) > 0}) != 0;
    const auto file = round_file(sweep_, sweep_.cases[i], round);
    if (finished || !selected_[i]) {
      if (finished && world_.rank() == 0) std::cout << "kept     " << file << "\n" << std::flush;
      return false;
    }
    RunOptions options{.command_line = options_.command_line, .quiet = true, .self_check = &self_checks_[i]};
    run_config(world_, config::config_of(sweep_.cases[i], file), plans_[i], options);
    comm::collective_guard(world_, [&] {
      if (world_.rank() != 0) return;
      const auto& record = here.rounds.emplace(round, read_round(file)).first->second;
      std::cout << fmt::format("round {}/{}  {}  {:.4f} s a step, exchange {:.1f} %{}\n", round,
                               sweep_.rounds, sweep_.cases[i].name, record.step_seconds,
                               100 * record.exchange_fraction, record.invalid ? "  INVALID" : "")
                << std::flush;
    });
    return true;
  }

  const Communicator& world_;
  const SweepConfig& sweep_;
  const SweepOptions& options_;
  std::vector<parallel::Plan> plans_;
  std::vector<bool> selected_;
  std::vector<std::vector<io::CheckRow>> self_checks_;  // of a case: found in its first round here
  SweepResult result_;                                  // rounds: on rank 0
};

}  // namespace

ExitCode sweep_command(const Communicator& world, const SweepOptions& options) {
  const auto sweep =
      comm::collective_guard(world, [&] { return config::load_sweep(options.sweep, options.overrides); });
  const int ranks = comm::collective_guard(world, [&] { return ranks_for(sweep, options, world.size()); });
  auto plans = comm::collective_guard(world, [&] {
    selected_cases(sweep, options.only);
    return check_cases(sweep, ranks);
  });
  if (world.rank() == 0)
    std::cout << fmt::format("{}\nsweep    {}: {} case{}, {} round{}, {} ranks\n", io::version_text(),
                             sweep.file, sweep.cases.size(), sweep.cases.size() == 1 ? "" : "s", sweep.rounds,
                             sweep.rounds == 1 ? "" : "s", ranks);
  if (options.dry_run) {
    if (world.rank() == 0) print_plans(sweep, plans);
    return ExitCode::valid;
  }
  return Sweep(world, sweep, options, std::move(plans)).run();
}

}  // namespace minisp::bench
