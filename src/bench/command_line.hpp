// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The command line, parsed.
#pragma once

#include "bench/commands.hpp"
#include "bench/compare.hpp"

namespace minisp::bench {

enum class Command { none, run, sweep, verify, compare, predict, calibrate, fit, info };

struct CommandLine {
  Command command = Command::none;  ///< none: `text` is all there is to do (--help, --version)
  RunOptions run;
  SweepOptions sweep;
  VerifyOptions verify;
  std::string compare_a, compare_b;
  CompareOptions compare;
  PredictOptions predict;
  CalibrateOptions calibrate;
  FitOptions fit;
  std::string text;  ///< to be printed
};

/// Throws Error (bad_input) on a command line that cannot be understood.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace minisp::bench
