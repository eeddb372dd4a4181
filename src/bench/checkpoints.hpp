// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// When a run saves its state, and where it goes on from one (doc/checkpoints.md).
#pragma once

#include "bench/stop_request.hpp"
#include "config/config.hpp"
#include "io/checkpoint_file.hpp"
#include "io/result.hpp"
#include "parallel/volume.hpp"
#include "train/trainer.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace minisp::bench {

/// Where a run begins; the default is at the beginning.
struct StartingPoint {
  std::string file;  ///< checkpoint; empty: none
  Index steps_done = 0;
  std::vector<std::string> notes;  ///< settings that are not those of the checkpoint, a sentence each
};

/// Collective. Finds the checkpoint that `file_or_folder` names (empty: none), reads every byte of it against
/// its checksum, and holds its settings against the deck's. Throws Error (bad_input, agreed) where it is
/// damaged, does not fit, or leaves nothing to be done.
StartingPoint find_start(const comm::Communicator& world, const config::Config& config,
                         const std::string& file_or_folder);

class Checkpoints {
 public:
  /// Collective. Prepares the deck's folder, if any, for a run that begins at `start`, and catches signals.
  /// `world` and `config` outlive it. Throws Error (bad_input, agreed) where the folder will not do.
  Checkpoints(const comm::Communicator& world, const config::Config& config, const StartingPoint& start,
              StopRequest::Clock::time_point run_start, std::optional<double> time_limit);

  /// Collective, after every step: saves where the deck says so, at the end (`last`), or where the run is
  /// asked to stop. Returns why it ends here before the end; empty: it goes on. Phase "checkpoint".
  template <class T>
  std::string after_step(const train::Trainer<T>& trainer, PhaseTimers& timers, bool last);

  /// What `steps` calls of after_step() enter in this rank's ledger.
  std::vector<parallel::ExpectedTraffic> expected_traffic(Index steps) const;

  const std::string& last_file() const { return last_file_; }
  /// "2 saved, 1.5 MiB each, 0.011 s (at most 0.013 s): ..."; empty where there was none.
  std::string summary() const;

 private:
  template <class T>
  void save(const train::Trainer<T>& trainer);

  const comm::Communicator& world_;
  const config::Config& config_;
  std::unique_ptr<StopRequest> stop_;  // where the deck names a folder
  std::string last_file_;
  Index bytes_ = 0;
  std::vector<double> seconds_;
};

/// Fills the trainer from `start`. Collective.
template <class T>
void resume(const comm::Communicator& world, const StartingPoint& start, train::Trainer<T>& trainer);

}  // namespace minisp::bench
