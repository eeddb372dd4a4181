// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

namespace minisp::bench {

namespace {

/// mpirun gives a rank a pseudo-terminal even where its own output goes to a file; that one has no size.
bool is_terminal() {
  winsize size{};
  return isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
}

}  // namespace

Progress::Progress(bool prints, Index total)
    : prints_(prints), terminal_(is_terminal()), total_(total), every_(std::max<Index>(1, total / 20)) {}

Progress::~Progress() {
  if (prints_ && terminal_) std::fputc('\n', stdout);
}

void Progress::show(Index step, const train::StepResult& result, Index tokens, const char* note) {
  if (!prints_) return;
  const auto line = fmt::format(
      "step {:>5}/{}  loss {:.6f}  gradient norm {:.4e}  {:.3f} s  {:.1f} tokens/s{}", step + 1, total_,
      result.loss, result.gradient_norm, result.seconds, static_cast<double>(tokens) / result.seconds, note);
  if (terminal_)
    fmt::print("\r{:<100}", line);
  else if (!shown_ || step % every_ == 0 || step + 1 == total_)
    fmt::print("{}\n", line);
  shown_ = true;
  std::fflush(stdout);
}

}  // namespace minisp::bench
