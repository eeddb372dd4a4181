// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/checkpoints.hpp"

#include "bench/plan_text.hpp"
#include "comm/agree.hpp"
#include "comm/scalars.hpp"
#include "config/restart.hpp"
#include "io/seal.hpp"
#include "train/figure_of_merit.hpp"
#include "util/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace minisp::bench {

namespace {

/// The same file on every rank: what each sees in a folder on a network may differ for a while.
std::string agree_on_file(const comm::Communicator& world, const std::string& file_or_folder) {
  const auto file = comm::collective_guard(
      world, [&] { return world.rank() == 0 ? io::find_checkpoint(file_or_folder) : std::string(); });
  const bool is_folder = comm::maximum(world, Index{world.rank() == 0 && file != file_or_folder}) != 0;
  if (!is_folder) return file_or_folder;
  const Index step = world.rank() == 0 ? io::checkpoint_steps(file_or_folder).back() : 0;
  return io::checkpoint_path(file_or_folder, comm::maximum(world, step));
}

}  // namespace

StartingPoint find_start(const comm::Communicator& world, const config::Config& config,
                         const std::string& file_or_folder) {
  StartingPoint start;
  if (file_or_folder.empty()) return start;
  start.file = agree_on_file(world, file_or_folder);
  io::require_seal(world, start.file, io::remedy_for_damaged(start.file));
  comm::collective_guard(world, [&] {
    const auto header = io::read_checkpoint_header(start.file);
    start.notes = config::check_restart(config, header.settings, start.file);
    start.steps_done = header.steps_done;
    const Index total = config.train.warmup_steps + config.train.steps;
    if (start.steps_done >= total)
      throw input_error(
          fmt::format("{} steps are done, and the deck asks for {} in all", start.steps_done, total),
          start.file,
          fmt::format("Raise train.steps (warm-up steps count too), for instance to {}",
                      start.steps_done + config.train.steps));
  });
  return start;
}

template <class T>
void resume(const comm::Communicator& world, const StartingPoint& start, train::Trainer<T>& trainer) {
  if (start.file.empty()) return;
  comm::collective_guard(world, [&] { train::load_states(trainer.layout(), trainer.states(), start.file); });
  trainer.resume(start.steps_done);
}

Checkpoints::Checkpoints(const comm::Communicator& world, const config::Config& config,
                         const StartingPoint& start, StopRequest::Clock::time_point run_start,
                         std::optional<double> time_limit)
    : world_(world), config_(config) {
  const auto& folder = config.checkpoint.folder;
  comm::collective_guard(world_, [&] {
    if (time_limit && folder.empty())
      throw input_error("there is no folder to save to when the time is up", "command line: --time-limit",
                        "Set checkpoint.folder, for instance to checkpoints");
    if (!folder.empty() && world_.rank() == 0) io::prepare_checkpoint_folder(folder, start.steps_done);
  });
  if (!folder.empty()) stop_ = std::make_unique<StopRequest>(run_start, time_limit);
}

template <class T>
std::string Checkpoints::after_step(const train::Trainer<T>& trainer, PhaseTimers& timers, bool last) {
  if (!stop_) return "";
  const auto phase = timers.phase("checkpoint");
  const std::string reason = stop_->agree(world_);
  const Index every = config_.checkpoint.every;
  if (last || !reason.empty() || (every > 0 && trainer.steps_done() % every == 0)) save(trainer);
  return last ? "" : reason;
}

template <class T>
void Checkpoints::save(const train::Trainer<T>& trainer) {
  const auto begin = StopRequest::Clock::now();
  const auto& folder = config_.checkpoint.folder;
  last_file_ = io::checkpoint_path(folder, trainer.steps_done());
  bytes_ =
      trainer.save(MPI_COMM_WORLD, {trainer.steps_done(), config::saved_settings(config_), {}}, last_file_);
  if (world_.rank() == 0) io::remove_old_checkpoints(folder, config_.checkpoint.keep);
  seconds_.push_back(std::chrono::duration<double>(StopRequest::Clock::now() - begin).count());
}

std::vector<parallel::ExpectedTraffic> Checkpoints::expected_traffic(Index steps) const {
  if (!stop_) return {};
  parallel::Plan plan;  // of which a scalar only asks how many ranks there are
  plan.ranks = world_.size();
  return {parallel::TrafficModel(plan, world_.rank(), world_.nodes()).scalars(stop_phase, steps)};
}

std::string Checkpoints::summary() const {
  if (seconds_.empty()) return "";
  return fmt::format("{} saved, {} each, {:.3f} s (median), {:.3f} s (slowest): {}", seconds_.size(),
                     bytes_text(static_cast<double>(bytes_)), train::median(seconds_),
                     *std::max_element(seconds_.begin(), seconds_.end()), last_file_);
}

#define MINISP_INSTANTIATE(T)                                                                    \
  template std::string Checkpoints::after_step<T>(const train::Trainer<T>&, PhaseTimers&, bool); \
  template void resume<T>(const comm::Communicator&, const StartingPoint&, train::Trainer<T>&);
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
MINISP_INSTANTIATE(bfloat16)
#undef MINISP_INSTANTIATE

}  // namespace minisp::bench
