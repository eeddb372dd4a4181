// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A line a step: on a terminal one line that is overwritten, in a batch log plain lines.
#pragma once

#include "train/trainer.hpp"

#include <string>

namespace minisp::bench {

class Progress {
 public:
  /// Prints on this rank only where `prints`; `total` steps will be shown.
  Progress(bool prints, Index total);
  ~Progress();

  void show(Index step, const train::StepResult& result, Index tokens, const char* note);

 private:
  bool prints_, terminal_;
  bool shown_ = false;   // a job that goes on shows where it took up
  Index total_, every_;  // a log gets about twenty lines
};

}  // namespace minisp::bench
