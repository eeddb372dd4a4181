// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/run.hpp"

#include "bench/arrivals.hpp"
#include "bench/checkpoints.hpp"
#include "bench/injection.hpp"
#include "bench/judge.hpp"
#include "bench/plan_text.hpp"
#include "bench/progress.hpp"
#include "bench/report.hpp"
#include "bench/step_trace.hpp"
#include "bench/tensors.hpp"
#include "bench/trace_files.hpp"
#include "comm/agree.hpp"
#include "comm/scalars.hpp"
#include "config/deck.hpp"
#include "io/output_file.hpp"
#include "train/export.hpp"
#include "train/figure_of_merit.hpp"
#include "train/self_check.hpp"
#include "train/trainer.hpp"
#include "util/memory_tracker.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <numeric>

namespace minisp::bench {

namespace {

using comm::Communicator;
using config::Config;

/// What the timed steps left on this rank.
struct Measurements {
  Index first_step = 0;                  // of this run; more than 0 after a restart
  Index warmup_steps = 0;                // of this run
  std::string stopped;                   // why it ended before the last step; empty: it did not
  std::vector<train::StepResult> steps;  // warm-up steps first
  std::vector<double> unattributed;      // share of each timed step in no phase
  std::vector<PhaseTimers::Entry> phases;
  comm::Ledger ledger;
  Arrivals arrivals;
  StepRecorder trace;  // of the last step, where the deck asks for it
  std::vector<std::string> traffic_differences;
  std::vector<parallel::ExpectedTraffic> expected_traffic;
  Index visible_pairs = 0;
  std::size_t memory_peak = 0, memory_growth = 0;
};

void say(const Communicator& world, const std::string& text) {
  if (world.rank() == 0) std::cout << text << std::flush;
}

void announce(const Communicator& world, const Config& config, const parallel::Plan& plan,
              const train::MemoryPrediction& memory) {
  const auto& topology = world.topology();
  say(world,
      fmt::format("{}\nmodel    {}\nplan     {}\nmachine  {} rank{} on {} node{}: {}\nmemory a rank\n{}",
                  io::version_text(), describe(config), describe(plan), world.size(),
                  world.size() == 1 ? "" : "s", topology.nodes(), topology.nodes() == 1 ? "" : "s",
                  fmt::join(topology.host_of_node, ", "), describe(memory)));
}

/// Warm-up and timed steps; traffic, phases and memory are those of the timed ones. After a restart the steps
/// that are left, of which as many as else, but for the last, warm up.
template <class T>
Measurements train_steps(const Communicator& world, const Config& config, train::Trainer<T>& trainer,
                         PhaseTimers& timers, Tensors<T>& tensors, Checkpoints& checkpoints,
                         std::size_t memory_before, bool quiet) {
  Measurements m;
  const auto& t = config.train;
  const Index tokens = t.batch * t.sequence_length * t.accumulation;
  const Index total = t.warmup_steps + t.steps;
  m.first_step = trainer.steps_done();
  m.warmup_steps = std::min(t.warmup_steps, total - m.first_step - 1);
  const Index first_timed = m.first_step + m.warmup_steps;
  Progress progress(world.rank() == 0 && !quiet, total);
  std::size_t memory_after_first = 0, memory_peak = 0;
  for (Index step = m.first_step; step < total && m.stopped.empty(); ++step) {
    const bool last = step + 1 == total;
    if (step == first_timed) {
      Index calls = total - first_timed;  // one a step for the agreement on stopping
      for (const auto& line : trainer.expected_traffic(total - first_timed)) calls += line.calls;
      m.arrivals.start(world, calls);
      comm::barrier(world);
      world.ledger().reset();
      timers.reset();
    }
    if (last) {
      memory_peak = MemoryTracker::peak();  // what is shown to the user is not the step's need
      tensors.capture(trainer, timers);
      MemoryTracker::reset_peak();
      if (config.output.traces()) m.trace.start(world, timers, step);
    }
    const double attributed_before = timers.total();
    m.steps.push_back(trainer.step());
    if (config.output.traces() && last) m.trace.stop(world, timers);
    if (step >= first_timed)
      m.unattributed.push_back(1 - (timers.total() - attributed_before) / m.steps.back().seconds);
    if (step == first_timed) memory_after_first = MemoryTracker::current();
    progress.show(step, m.steps.back(), tokens, step < first_timed ? "  (warm-up)" : "");
    m.stopped = checkpoints.after_step(trainer, timers, last);
  }
  m.phases = timers.entries();
  m.ledger = world.ledger();
  m.arrivals.stop(world);
  const Index timed = total - first_timed;
  m.expected_traffic = trainer.expected_traffic(timed);
  for (auto& line : checkpoints.expected_traffic(timed)) m.expected_traffic.push_back(std::move(line));
  m.traffic_differences = parallel::compare(m.ledger, m.expected_traffic);
  m.visible_pairs = trainer.visible_pairs();
  m.memory_peak = std::max(memory_peak, MemoryTracker::peak()) - memory_before;
  const std::size_t memory_now = MemoryTracker::current();
  m.memory_growth = memory_now > memory_after_first ? memory_now - memory_after_first : 0;
  return m;
}

io::StepMetrics gather_metrics(const Communicator& world, const Config& config, const Measurements& m) {
  io::StepMetrics metrics;
  metrics.warmup_steps = m.warmup_steps;
  const double tokens =
      static_cast<double>(config.train.batch * config.train.sequence_length * config.train.accumulation);
  for (const auto& step : m.steps) {
    const double seconds = comm::maximum(world, step.seconds);
    metrics.step.push_back(m.first_step + static_cast<Index>(metrics.step.size()));
    metrics.loss.push_back(step.loss);
    metrics.grad_norm.push_back(step.gradient_norm);
    metrics.seconds.push_back(seconds);
    metrics.tokens_per_s.push_back(tokens / seconds);
    metrics.learning_rate.push_back(step.learning_rate);
  }
  return metrics;
}

Index expected_bytes(const Measurements& m, const comm::LedgerEntry& entry) {
  Index bytes = 0;
  for (const auto& line : m.expected_traffic)
    if (line.collective == entry.collective && line.phase == entry.phase &&
        line.communicator == entry.communicator)
      bytes += line.bytes_on_node + line.bytes_off_node;
  return bytes;
}

void gather_phases_and_traffic(const parallel::Mesh& mesh, const Measurements& m, io::RunResult& result) {
  const auto& world = mesh.world();
  const auto waiting = m.arrivals.divide(mesh, m.ledger);
  for (const auto& phase : m.phases)
    result.phases.push_back({phase.name, comm::gather_scalar(world, phase.seconds)});
  for (std::size_t i = 0; i < m.ledger.entries().size(); ++i) {
    const auto& entry = m.ledger.entries()[i];
    result.traffic.push_back(
        {entry.collective, entry.phase, comm::gather_scalar(world, entry.calls),
         comm::gather_scalar(world, entry.bytes_on_node), comm::gather_scalar(world, entry.bytes_off_node),
         comm::gather_scalar(world, expected_bytes(m, entry)), comm::gather_scalar(world, entry.seconds),
         comm::gather_scalar(world, entry.seconds - entry.transfer_seconds),
         comm::gather_scalar(world, waiting.wait[i]), comm::gather_scalar(world, waiting.wire[i])});
  }
  result.arrivals = m.arrivals.gather(world, waiting);
}

io::FigureOfMerit figure_of_merit(const Communicator& world, const Config& config, const parallel::Plan& plan,
                                  const Measurements& m, const io::StepMetrics& metrics, double gemm_rate) {
  const auto& t = config.train;
  const Index tokens = t.batch * t.sequence_length * t.accumulation;
  const Index pairs = comm::sum(world, m.visible_pairs) / plan.sequence_degree;
  io::FigureOfMerit fom;
  fom.median_step_seconds = train::median({metrics.seconds.begin() + m.warmup_steps, metrics.seconds.end()});
  fom.tokens_per_s = static_cast<double>(tokens) / fom.median_step_seconds;
  fom.model_flops_per_s = train::model_flops(config.model, tokens, pairs) / fom.median_step_seconds;
  fom.gemm_flops_per_s = comm::sum(world, gemm_rate);
  fom.gemm_fraction = fom.model_flops_per_s / fom.gemm_flops_per_s;
  return fom;
}

template <class T>
Evidence gather_evidence(const Communicator& world, const Measurements& m, const train::Trainer<T>& trainer) {
  Evidence evidence;
  // Every rank counts its own lines; the sentences of rank 0 stand for the others where there are any.
  evidence.traffic_differences = m.traffic_differences;
  const Index others = comm::maximum(world, static_cast<Index>(m.traffic_differences.size()));
  if (others > static_cast<Index>(m.traffic_differences.size()))
    evidence.traffic_differences.push_back(
        fmt::format("another rank has {} lines of traffic off the formula", others));
  // The least of the steps: a rank that loses its core between two phases is the machine's doing, in one step
  // or another; work that no phase covers is there in every step.
  evidence.unattributed_fraction =
      comm::maximum(world, *std::min_element(m.unattributed.begin(), m.unattributed.end()));
  evidence.ranks_with_other_weights = train::ranks_that_differ<T>(world, trainer.weights());
  evidence.memory_growth = comm::maximum(world, static_cast<Index>(m.memory_growth));
  return evidence;
}

io::RunResult describe_run(const Config& config, const parallel::Plan& plan, int nodes,
                           io::Provenance provenance) {
  io::RunResult result;
  result.precision = config::to_string(config.train.precision);
  result.decomposition = config::to_string(plan.asked);
  result.optimizer = config::to_string(config.train.optimizer);
  result.provenance = std::move(provenance);
  result.provenance.nodes = nodes;
  result.provenance.injected = describe(config.inject);
  result.input = {config.deck_file, config.deck_text, config.overrides, config::settings(config)};
  return result;
}

void write_traces(const parallel::Mesh& mesh, const Config& config, const Measurements& m,
                  const PhaseTimers& timers) {
  if (!config.output.traces()) return;
  const auto& world = mesh.world();
  const auto trace = m.trace.take(mesh, m.ledger, timers, m.arrivals.clock());
  const TraceNotes notes{describe(mesh.plan()), describe(config.inject),
                         comm::maximum(world, m.arrivals.clock().error())};
  if (!config.output.trace.empty()) {
    write_chrome_trace(mesh, config.output.trace, trace, notes);
    say(world, "trace    " + config.output.trace + "\n");
  }
  if (!config.output.execution_trace.empty()) {
    write_execution_traces(mesh, config.output.execution_trace, trace, notes);
    say(world, "trace    " + config.output.execution_trace + "\n");
  }
}

/// A run from its plan to its verdict.
template <class T>
ExitCode run(const Communicator& world, const Config& config, const parallel::Plan& plan,
             const RunOptions& options, StopRequest::Clock::time_point run_start) {
  const auto predicted = train::Trainer<T>::predict_memory(config, plan, world.rank());
  if (!options.quiet) announce(world, config, plan, predicted);
  const auto tokens = comm::collective_guard(world, [&] { return train::make_token_source(config); });
  if (!config.output.file.empty())
    comm::collective_guard(world, [&] {
      if (world.rank() == 0) io::check_output_path(config.output.file, config.output.overwrite);
    });
  comm::collective_guard(world, [&] {
    if (world.rank() == 0) check_trace_paths(config.output);
  });
  if (!config.export_to.folder.empty())
    comm::collective_guard(world, [&] {
      if (world.rank() == 0) train::check_export_folder(config.export_to);
    });
  const auto start = find_start(world, config, options.restart);
  if (!start.file.empty())
    say(world, fmt::format("restart  {}, after step {}\n", start.file, start.steps_done));
  for (const auto& note : start.notes) say(world, "NOTE: " + note + "\n");
  if (options.dry_run) return ExitCode::valid;
  Checkpoints checkpoints(world, config, start, run_start, options.time_limit);

  auto result = describe_run(config, plan, world.topology().nodes(),
                             io::gather_provenance(MPI_COMM_WORLD, options.command_line));
  if (const auto floor = tokens->entropy_rate(); floor && !options.quiet)
    say(world, fmt::format("loss     at least {:.6f}, the entropy rate of the tokens\n", *floor));

  std::vector<io::CheckRow> own_self_check;
  auto& self_check = options.self_check ? *options.self_check : own_self_check;
  if (config.verify.enabled && self_check.empty()) self_check = train::self_check(world, config);
  const double gemm_rate = train::measure_gemm_rate<T>(Exec());

  world.release_workspace();  // of the self-check or a run before: what this one needs is to count
  const std::size_t memory_before = MemoryTracker::current();
  MemoryTracker::reset_peak();
  const parallel::Mesh mesh(world, plan);
  PhaseTimers timers;
  timers.set_drag(drag_of(config.inject, world.rank()));
  const auto trainer = comm::collective_guard(
      world, [&] { return std::make_unique<train::Trainer<T>>(config, mesh, *tokens, timers); });
  resume(world, start, *trainer);
  Tensors<T> tensors(config.output, mesh, config.train.accumulation);
  const auto measured =
      train_steps(world, config, *trainer, timers, tensors, checkpoints, memory_before, options.quiet);
  if (!measured.stopped.empty()) {
    say(world, fmt::format("STOPPED: by {}, after step {} of {}. Go on with --restart {}\n", measured.stopped,
                           trainer->steps_done(), config.train.warmup_steps + config.train.steps,
                           checkpoints.last_file()));
    return ExitCode::stopped;
  }

  result.metrics = gather_metrics(world, config, measured);
  result.metrics.entropy_rate = tokens->entropy_rate();
  gather_phases_and_traffic(mesh, measured, result);
  result.memory = {comm::gather_scalar(world, predicted.total()),
                   comm::gather_scalar(world, static_cast<Index>(measured.memory_peak))};
  result.figure_of_merit = figure_of_merit(world, config, plan, measured, result.metrics, gemm_rate);
  Evidence evidence = gather_evidence(world, measured, *trainer);
  evidence.self_check = self_check;
  result.verdict = judge(evidence, result);

  if (const auto summary = checkpoints.summary(); !summary.empty())
    say(world, "CHECKPOINTS: " + summary + "\n");
  if (world.rank() == 0 && !options.quiet) print_report(std::cout, result);
  if (options.result) *options.result = result;
  if (!config.output.file.empty()) {
    io::OutputFile file(MPI_COMM_WORLD, config.output.file, config.output.overwrite);
    io::write_result(file, result);
    tensors.write(file, *trainer);
    file.commit();
    if (!options.quiet) say(world, "results  " + config.output.file + "\n");
  }
  write_traces(mesh, config, measured, timers);
  if (!config.export_to.folder.empty()) {
    train::export_weights<T>(config, mesh, trainer->layout(), trainer->pieces());
    say(world, "weights  " + config.export_to.folder + "\n");
  }
  return result.verdict.valid ? ExitCode::valid : ExitCode::invalid;
}

}  // namespace

parallel::Plan plan_of(const Config& config, int ranks) {
  check_injection(config.inject, ranks);
  return parallel::make_plan(config.parallel, ranks, config.model, config.train.batch,
                             config.train.sequence_length);
}

ExitCode run_config(const Communicator& world, const Config& config, const parallel::Plan& plan,
                    const RunOptions& options, StopRequest::Clock::time_point run_start) {
  return train::with_precision(config.train.precision, [&]<class T>() {
    if (config.inject.link_rank < 0) return run<T>(world, config, plan, options, run_start);
    return run<T>(world.with_slow_link(slow_link_of(config.inject)), config, plan, options, run_start);
  });
}

ExitCode run_command(const Communicator& world, const RunOptions& options) {
  const auto run_start = StopRequest::Clock::now();
  const Config config =
      comm::collective_guard(world, [&] { return config::load_config(options.deck, options.overrides); });
  const auto plan = comm::collective_guard(world, [&] { return plan_of(config, world.size()); });
  return run_config(world, config, plan, options, run_start);
}

}  // namespace minisp::bench
