// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The tensors that a deck asks for beside the numbers: activations, logits and gradients of the last step,
// and the weights after it, as global arrays.
#pragma once

#include "config/config.hpp"
#include "io/output_file.hpp"
#include "parallel/mesh.hpp"
#include "train/recorder.hpp"
#include "train/trainer.hpp"

#include <vector>

namespace minisp::bench {

template <class T>
class Tensors {
 public:
  /// What is passed by reference outlives this.
  Tensors(const config::OutputConfig& wanted, const parallel::Mesh& mesh, Index accumulation);

  /// Collective, before the last step: computes that step's gradients once more with everything shown,
  /// outside of what is timed and counted (timers and ledger are put back).
  void capture(train::Trainer<T>& trainer, PhaseTimers& timers);
  /// Collective, after the last step.
  void write(io::OutputFile& file, const train::Trainer<T>& trainer) const;

 private:
  void write_parameter(io::OutputFile& file, const model::ParameterEntry& entry,
                       const HostVector<const Accumulate<T>>& flat, const std::string& path,
                       const std::string& description) const;

  config::OutputConfig wanted_;
  const parallel::Mesh& mesh_;
  train::Recorder<T> recorder_;
  std::vector<Accumulate<T>> gradients_;  // flat; no Kokkos memory, which is the step's to account for
};

}  // namespace minisp::bench
