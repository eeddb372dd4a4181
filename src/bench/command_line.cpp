// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/command_line.hpp"

#include "bench/stop_request.hpp"
#include "config/deck.hpp"
#include "config/suggest.hpp"
#include "io/provenance.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace minisp::bench {

namespace {

constexpr const char* footer = R"(Examples:
  mpirun -n 8 minisp run inputs/tiny.toml parallel.system=basp
  mpirun -n 8 minisp run inputs/tiny.toml parallel.system=ulysses train.steps=50 output.file=ulysses.h5
  minisp run inputs/llama-3.2-1b.toml --dry-run
  mpirun -n 8 minisp run inputs/tiny.toml checkpoint.folder=saved checkpoint.every=100 --time-limit 00:25:00
  mpirun -n 4 minisp run inputs/tiny.toml checkpoint.folder=saved --restart saved
  mpirun -n 4 minisp verify inputs/tiny.toml parallel.system=ulysses train.precision=fp64
  minisp verify --reference tests/reference/gpt2
  minisp compare ulysses.h5 basp.h5
  mpirun -n 8 minisp sweep inputs/paper/figure7-small.toml sweep.rounds=5
  minisp predict inputs/llama-3.1-8b.toml --machine machines/dgx-h100.toml --ranks 64 --plans

Exit codes: 0 finished and valid, 1 finished and INVALID, 2 wrong input, 3 wrong environment,
4 stopped early on a signal or at the time limit, with a checkpoint to go on from.)";

constexpr const char* overrides_help = "Keys of the deck that take another value, for example model.layers=4";

CLI::App* add_predict(CLI::App& app, PredictOptions& predict) {
  auto* command = app.add_subcommand(
      "predict", "What a step of a deck, or of each case of a sweep, would take on a machine; runs nothing");
  command->add_option("input", predict.input, "TOML deck or sweep")->required();
  command->add_option("overrides", predict.overrides, overrides_help);
  command
      ->add_option("--machine", predict.machine, "Machine file; machines/ holds some, calibrate writes one")
      ->required();
  command->add_option("--ranks", predict.ranks, "Ranks; default the sweep's, or those of the job")
      ->check(CLI::Range(Index{1}, Index{1} << 30));
  command->add_option("--ranks-per-node", predict.ranks_per_node, "Default: the machine's")
      ->check(CLI::Range(Index{1}, Index{1} << 20));
  command->add_flag("--strided", predict.strided,
                    "Ranks are dealt out to the nodes in turn, not node by node");
  command
      ->add_option("--link-factor", predict.link_factor,
                   "What if the links off the node had so many times the machine's bandwidth")
      ->check(CLI::Range(1e-6, 1e6));
  command->add_option("--lengths", predict.lengths,
                      "File of the batch's sequence lengths, a line each: LENGTH or LENGTH COUNT");
  command->add_option("--csv", predict.csv, "File to write: case,phase,seconds");
  command->add_flag("--overwrite", predict.overwrite, "Replace a --csv file that is there");
  command->add_flag("--plans", predict.plans, "Every decomposition with its step and memory, best first");
  return command;
}

CLI::App* add_calibrate(CLI::App& app, CalibrateOptions& calibrate) {
  auto* command = app.add_subcommand(
      "calibrate", "Measure this machine for the performance model, all ranks of the job at once");
  command->add_option("--output", calibrate.output, "Machine file to write")->required();
  command->add_flag("--overwrite", calibrate.overwrite, "Replace a file that is there");
  command->add_option("--name", calibrate.name, "Name of the machine; default its processor's");
  static const std::map<std::string, config::Precision> precisions = {{"fp64", config::Precision::fp64},
                                                                      {"fp32", config::Precision::fp32},
                                                                      {"bf16", config::Precision::bf16}};
  command->add_option("--precision", calibrate.precision, "fp64, fp32 (default) or bf16")
      ->transform(CLI::CheckedTransformer(precisions));
  command
      ->add_option("--rounds", calibrate.rounds,
                   "Rounds of every step, of which the median counts; default 3")
      ->check(CLI::Range(Index{1}, Index{1000}));
  command->add_flag("--quick", calibrate.quick, "Small decks only: seconds, and a narrow range");
  return command;
}

CLI::App* add_fit(CLI::App& app, FitOptions& fit) {
  auto* command =
      app.add_subcommand("fit", "Find the machine that explains published figures of Ulysses and BASP best");
  command->add_option("table", fit.table, "Table of figures: inputs/paper/paper_figures.csv")->required();
  command->add_option("--figures", fit.figures, "Only these figures, such as 7")->delimiter(',');
  command->add_option("--machine", fit.machine, "Machine file to start from")->required();
  command->add_option("--output", fit.output, "Machine file to write")->required();
  command->add_flag("--overwrite", fit.overwrite, "Replace a file that is there");
  return command;
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  CLI::App app("miniSP: long-context transformer training under every way of splitting a sequence");
  app.footer(footer);
  app.set_version_flag("--version", io::version_text());
  app.require_subcommand(1);

  auto* run = app.add_subcommand("run", "Train as the deck says, check it, and report the figure of merit");
  run->add_option("deck", line.run.deck, "TOML deck; inputs/ holds some");
  run->add_option("overrides", line.run.overrides, overrides_help);
  run->add_flag("--dry-run", line.run.dry_run, "Check the deck, print plan, parameters and memory, and stop");
  run->add_option("--restart", line.run.restart,
                  "Go on from the newest checkpoint in this folder, or from this file");
  std::string time_limit;
  run->add_option("--time-limit", time_limit,
                  "Seconds or HH:MM:SS after which the run saves a checkpoint and stops (exit code 4), as it "
                  "does on SIGTERM and SIGUSR1");
  bool keys = false;
  run->add_flag("--keys", keys, "List every key of a deck with type, range, default and meaning, and stop");

  auto* sweep = app.add_subcommand(
      "sweep", "Run many decks in turn, several rounds, and report their ratios; goes on where it stopped");
  sweep->add_option("sweep", line.sweep.sweep, "TOML file with a deck and its variants")->required();
  sweep->add_option("overrides", line.sweep.overrides,
                    "sweep.folder=..., sweep.rounds=..., and keys of decks that all cases take");
  sweep->add_option("--only", line.sweep.only, "Run only the cases whose names contain this text");
  sweep->add_flag("--dry-run", line.sweep.dry_run, "Check every case, print its plan and memory, and stop");
  sweep->add_option("--ranks", line.sweep.ranks, "With --dry-run: check for this number of ranks")
      ->check(CLI::PositiveNumber);

  auto* verify = app.add_subcommand(
      "verify", "Hold the deck's decomposition against one rank, or a model against a reference folder");
  std::vector<std::string> words;
  verify->add_option("--reference", line.verify.reference,
                     "Folder with config.json, model.safetensors, tokens.bin and reference.h5");
  verify->add_option("words", words, "DECK (without --reference), then key=value ...");

  auto* compare =
      app.add_subcommand("compare", "Judge one result file against another, or against a reference.h5");
  compare->add_option("a", line.compare_a, "Result file")->required();
  compare->add_option("b", line.compare_b, "Result file, or reference.h5")->required();
  compare->add_option("--tolerance", line.compare.tolerance,
                      "Relative 2-norm, instead of those by precision");
  compare->add_flag("--json", line.compare.json, "Print JSON");

  auto* predict = add_predict(app, line.predict);

  auto* calibrate = add_calibrate(app, line.calibrate);

  auto* fit = add_fit(app, line.fit);

  auto* info = app.add_subcommand("info", "Build, libraries, processor, BLAS kernel and presets");

  const std::vector<std::string> commands = {"run",     "sweep",     "verify", "compare",
                                             "predict", "calibrate", "fit",    "info"};
  if (argc > 1 && argv[1][0] != '-' && std::find(commands.begin(), commands.end(), argv[1]) == commands.end())
    throw input_error(fmt::format("there is no command '{}'", argv[1]), "command line",
                      config::suggestion(argv[1], commands) + "; minisp --help tells more");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion&) {
    line.text = io::version_text() + "\n";
    return line;
  } catch (const CLI::CallForHelp&) {
    line.text = app.help();
    for (const auto* command : app.get_subcommands()) line.text = command->help();
    return line;
  } catch (const CLI::ParseError& error) {
    throw input_error(error.what(), "command line", "minisp --help tells what there is");
  }
  if (keys) {
    line.text = config::keys_help();
    return line;
  }
  if (*run) line.command = Command::run;
  if (!time_limit.empty()) line.run.time_limit = parse_time_limit(time_limit);
  if (*run && line.run.deck.empty())
    throw input_error("no deck is named", "command line", "Name one: minisp run inputs/tiny.toml");
  if (*sweep) line.command = Command::sweep;
  if (*sweep && line.sweep.ranks > 0 && !line.sweep.dry_run)
    throw input_error("a sweep runs on the ranks of its job", "command line: --ranks",
                      "Add --dry-run, or start mpirun with that number");
  if (*compare) line.command = Command::compare;
  if (*predict) line.command = Command::predict;
  if (*calibrate) line.command = Command::calibrate;
  if (*fit) line.command = Command::fit;
  if (*info) line.command = Command::info;
  if (*verify) {
    line.command = Command::verify;
    if (line.verify.reference.empty()) {
      if (words.empty())
        throw input_error("neither a deck nor --reference is named", "command line",
                          "Name one: minisp verify inputs/tiny.toml");
      line.verify.deck = words.front();
      words.erase(words.begin());
    }
    line.verify.overrides = words;
  }
  line.run.command_line.assign(argv, argv + argc);
  line.sweep.command_line = line.run.command_line;
  return line;
}

}  // namespace minisp::bench
