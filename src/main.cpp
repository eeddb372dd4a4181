// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The program: environment, command, exit code.
#include "bench/command_line.hpp"
#include "comm/agree.hpp"
#include "comm/environment.hpp"
#include "comm/scalars.hpp"
#include "math/gemm.hpp"
#include "util/memory_tracker.hpp"

#include <Kokkos_Core.hpp>

#include <cstdio>
#include <iostream>

namespace {

using minisp::ExitCode;
using minisp::bench::Command;

/// One rank reads and judges; the verdict is everybody's.
template <class Body>
ExitCode on_root(const minisp::comm::Communicator& world, const Body& body) {
  const auto code =
      minisp::comm::collective_guard(world, [&] { return world.rank() != 0 ? ExitCode::valid : body(); });
  return static_cast<ExitCode>(minisp::comm::maximum(world, minisp::Index(code)));
}

ExitCode dispatch(const minisp::comm::Communicator& world, int argc, char** argv) {
  const auto line =
      minisp::comm::collective_guard(world, [&] { return minisp::bench::parse_command_line(argc, argv); });
  switch (line.command) {
    case Command::run:
      return minisp::bench::run_command(world, line.run);
    case Command::verify:
      return minisp::bench::verify_command(world, line.verify);
    case Command::sweep:
      return minisp::bench::sweep_command(world, line.sweep);
    case Command::compare:
      return on_root(world, [&] {
        return minisp::bench::compare_command(line.compare_a, line.compare_b, line.compare, std::cout);
      });
    case Command::predict:
      return on_root(world,
                     [&] { return minisp::bench::predict_command(line.predict, world.size(), std::cout); });
    case Command::calibrate:
      return minisp::bench::calibrate_command(world, line.calibrate);
    case Command::fit:
      return on_root(world, [&] { return minisp::bench::fit_command(line.fit, std::cout); });
    case Command::info:
      return minisp::bench::info_command(world);
    case Command::none:
      break;
  }
  if (world.rank() == 0) std::cout << line.text;
  return ExitCode::valid;
}

/// An error that every rank holds is printed by one, and all leave in order; any other ends the job.
int report(const minisp::Error& error, int rank) {
  if (rank == 0 || !error.agreed()) std::fprintf(stderr, "minisp: %s\n", error.what());
  if (!error.agreed()) minisp::comm::abort_job(static_cast<int>(error.code()));
  return static_cast<int>(error.code());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    minisp::comm::Environment environment(argc, argv);
    Kokkos::ScopeGuard kokkos(argc, argv);
    minisp::MemoryTracker::install();
    minisp::math::limit_library_threads();
    const auto world = minisp::comm::Communicator::world();
    try {
      return static_cast<int>(dispatch(world, argc, argv));
    } catch (const minisp::Error& error) {
      return report(error, world.rank());
    } catch (const std::exception& error) {
      return report(minisp::environment_error(error.what(), "rank " + std::to_string(world.rank()),
                                              "Please report this with the deck and the command line"),
                    world.rank());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "minisp: %s\n", error.what());
    return static_cast<int>(ExitCode::environment);
  }
}
