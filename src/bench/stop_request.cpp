// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/stop_request.hpp"

#include "comm/scalars.hpp"
#include "util/error.hpp"

#include <array>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <vector>

namespace minisp::bench {

namespace {

volatile std::sig_atomic_t caught = 0;
extern "C" void remember_signal(int signal) {
  caught = signal;
}

constexpr std::array signals{SIGTERM, SIGUSR1};

// What the ranks exchange: the largest is everybody's reason.
enum Reason : Index { none, time_is_up, sigusr1, sigterm };
constexpr std::array reason_texts{"", "the time limit", "SIGUSR1", "SIGTERM"};

}  // namespace

double parse_time_limit(const std::string& text) {
  const auto refuse = [&] {
    return input_error("'" + text + "' is no time", "command line: --time-limit",
                       "Give seconds (900) or HH:MM:SS (00:15:00), more than none");
  };
  std::vector<int> fields;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    int value = 0;
    const auto [read_to, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    if (error != std::errc() || read_to != text.data() + end || value < 0) throw refuse();
    fields.push_back(value);
    begin = end + 1;
  }
  double seconds = 0;
  if (fields.size() == 1) seconds = fields[0];
  if (fields.size() == 3 && fields[1] < 60 && fields[2] < 60)
    seconds = 3600.0 * fields[0] + 60.0 * fields[1] + fields[2];
  if (seconds <= 0) throw refuse();
  return seconds;
}

StopRequest::StopRequest(Clock::time_point start, std::optional<double> limit) {
  if (limit)
    end_ = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*limit));
  caught = 0;
  // On a stack of its own: kernels that oneDNN 2.6 makes for sgemm keep data where the stack pointer says
  // that there is room, and a handler on the ordinary stack writes over it (the heap is then corrupt). The
  // kernel hands a signal of the process to its first thread, which this is.
  static std::array<char, std::size_t{1} << 16> stack;
  stack_t alternate{};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_handler = remember_signal;
  action.sa_flags = SA_ONSTACK | SA_RESTART;  // system calls under way go on: MPI and HDF5 need not know
  for (const int signal : signals) sigaction(signal, &action, nullptr);
}

StopRequest::~StopRequest() {
  for (const int signal : signals) std::signal(signal, SIG_DFL);
}

std::string StopRequest::agree(const comm::Communicator& world) const {
  Reason mine = none;
  if (end_ && Clock::now() >= *end_) mine = time_is_up;
  if (caught == SIGUSR1) mine = sigusr1;
  if (caught == SIGTERM) mine = sigterm;
  const auto label = world.ledger().phase(stop_phase);
  return reason_texts[static_cast<std::size_t>(comm::maximum(world, Index{mine}))];
}

}  // namespace minisp::bench
