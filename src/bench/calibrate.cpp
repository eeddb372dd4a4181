// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/calibrate.hpp"

#include "comm/agree.hpp"
#include "comm/all_gather.hpp"
#include "comm/all_to_all.hpp"
#include "comm/scalars.hpp"
#include "io/output_file.hpp"
#include "io/parts_file.hpp"
#include "io/provenance.hpp"
#include "math/gemm.hpp"
#include "train/figure_of_merit.hpp"
#include "train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <set>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace minisp::bench {

namespace {

using comm::Communicator;
using perfmodel::Collective;
using perfmodel::CollectiveSample;
using perfmodel::Peers;
using perfmodel::Placement;

// Cores that are less shared than this are not: caches and clocks tell a rank alone from many, too.
constexpr double shared_from = 1.5;
constexpr double buffer_limit = 16 << 20;  // bytes that a rank sends in one call

void say(const Communicator& world, const std::string& text) {
  if (world.rank() == 0) std::cout << text << std::flush;
}

/// Nodes filled one after the other, each with as many ranks but for the last, are what the model knows.
Placement placement_of(const Communicator& world) {
  const auto& nodes = world.nodes();
  const Index width = std::count(nodes.begin(), nodes.end(), nodes.front());
  for (std::size_t rank = 0; rank < nodes.size(); ++rank)
    if (nodes[rank] != nodes[rank / static_cast<std::size_t>(width) * static_cast<std::size_t>(width)] ||
        (rank >= static_cast<std::size_t>(width) &&
         nodes[rank] == nodes[rank - static_cast<std::size_t>(width)]))
      throw input_error("the job's ranks do not fill one node after the other, equally many on each",
                        "minisp calibrate", "Start it with the launcher's mapping by slot or core");
  return {world.size(), width, perfmodel::Mapping::contiguous};
}

struct Seconds {
  double exchange = 0, gather = 0;  // of the mean rank
  double last = 0;                  // of the last rank in the exchange
};

/// An all-to-all that all groups come to together after a pause, and an all-gather right behind it, when
/// links have used up what they had saved.
Seconds seconds_of(const Communicator& world, const Communicator& group, Index bytes) {
  constexpr int repetitions = 5;
  const Exec exec;
  const Index ranks = group.size();
  const Vector<std::int8_t> one("minisp::calibrate::one", bytes),
      all("minisp::calibrate::all", bytes * ranks), other("minisp::calibrate::other", bytes * ranks);
  std::vector<double> exchanges, gathers, lasts;
  for (int repetition = 0; repetition <= repetitions; ++repetition) {  // the first one warms up
    std::this_thread::sleep_for(std::chrono::milliseconds(30));        // links and queues come to rest
    comm::barrier(world);
    const double start = comm::steady_seconds();
    comm::all_to_all<std::int8_t>(group, exec, other, all);
    const double exchange = comm::steady_seconds() - start;
    comm::barrier(world);
    const double again = comm::steady_seconds();
    comm::all_gather<std::int8_t>(group, exec, one, all);
    const double gather = comm::steady_seconds() - again;
    const double sums[] = {comm::sum(world, exchange), comm::sum(world, gather),
                           comm::maximum(world, exchange)};
    if (repetition == 0) continue;
    exchanges.push_back(sums[0] / world.size());
    gathers.push_back(sums[1] / world.size());
    lasts.push_back(sums[2]);
  }
  return {train::median(exchanges), train::median(gathers), train::median(lasts)};
}

void add_family(const Communicator& world, const Communicator& group, const Peers& peers, bool quick,
                std::vector<CollectiveSample>& samples) {
  const std::vector<Index> sizes =
      quick ? std::vector<Index>{8, 4096, 65536} : std::vector<Index>{8, 2048, 16384, 65536, 262144, 1048576};
  for (const Index bytes : sizes) {
    if (double(bytes) * double(peers.group_ranks) > buffer_limit) continue;
    const auto seconds = seconds_of(world, group, bytes);
    samples.push_back({Collective::all_to_all, peers, double(bytes), seconds.exchange, seconds.last});
    samples.push_back({Collective::all_gather, peers, double(bytes), seconds.gather, 0});
  }
}

/// By how much a rank computes faster while all others sleep: how many share its core.
double ranks_per_core(const Communicator& world, config::Precision precision) {
  return train::with_precision(precision, [&]<class T>() {
    comm::barrier(world);
    const double together = comm::sum(world, train::measure_gemm_rate<T>(Exec())) / world.size();
    double alone = 0;
    if (world.rank() == 0)
      alone = train::measure_gemm_rate<T>(Exec());
    else
      std::this_thread::sleep_for(std::chrono::seconds(1));  // a rank that waits in MPI may take the core
    return std::max(1.0, comm::maximum(world, alone) / together);
  });
}

/// A rank's share of the node's memory.
double host_memory_gib(const Placement& placement) {
  const double bytes = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  return bytes / double(placement.ranks_per_node) / double(1 << 30);
}

std::string processor_text(const io::Provenance& p) {
  return fmt::format("{}, {} ranks on {} node{}, {}, {}", p.processor, p.ranks, p.nodes,
                     p.nodes == 1 ? "" : "s", p.execution_space,
                     p.mpi_library.substr(0, p.mpi_library.find(',')));
}

std::vector<std::string> head_notes(const io::Provenance& p, config::Precision precision, Index rounds) {
  return {"Made by `minisp calibrate`: " + io::version_text() + ", " + p.date.substr(0, 10) + ".",
          processor_text(p) + ".",
          "",
          fmt::format(
              "compute: least squares over steps of small decks in {} ({}), all ranks at once, median of {} "
              "rounds. Where ranks share cores, [share] says how, and rates are those of a core.",
              config::to_string(precision), "the program's own phases", rounds),
          "all_to_all, all_gather: one of each after a pause, all groups at once, mean rank.",
          "skew: what collectives of those steps took beyond that.",
          "Residuals, at the time of calibration:",
          ""};
}

}  // namespace

std::vector<CollectiveSample> measure_collectives(const Communicator& world, const Placement& placement,
                                                  bool quick) {
  std::vector<CollectiveSample> samples;
  const Index n = world.size();
  std::set<Index> sizes;
  for (const Index size : {Index{2}, placement.ranks_per_node, n / 2, n})
    if (size > 1 && size <= n && n % size == 0) sizes.insert(size);
  for (const Index size : sizes) {
    const auto group = world.split(world.rank() / static_cast<int>(size), world.rank(), "calibrate");
    add_family(world, group, perfmodel::consecutive_groups(placement, size), quick, samples);
  }
  if (placement.nodes() > 1 && placement.ranks_per_node > 1 && n % placement.ranks_per_node == 0) {
    const auto stride = static_cast<int>(placement.ranks_per_node);
    const auto group = world.split(world.rank() % stride, world.rank(), "calibrate");
    add_family(world, group, perfmodel::strided_groups(placement, stride), quick, samples);
  }
  return samples;
}

ExitCode calibrate_command(const Communicator& world, const CalibrateOptions& options) {
  comm::collective_guard(world, [&] {
    if (world.rank() == 0) io::check_output_path(options.output, options.overwrite);
    train::with_precision(options.precision, []<class T>() { math::require_gemm<T>(); });
  });
  const Placement placement = comm::collective_guard(world, [&] { return placement_of(world); });
  const auto provenance = io::gather_provenance(MPI_COMM_WORLD, {});
  say(world, fmt::format("{}\nmachine  {}\n", io::version_text(), processor_text(provenance)));
  perfmodel::Machine machine;
  machine.name = options.name.empty() ? provenance.processor : options.name;
  machine.origin = "calibrated";
  machine.ranks_per_node = placement.ranks_per_node;
  if constexpr (std::is_same_v<Exec, Kokkos::DefaultHostExecutionSpace>)
    machine.memory_gib = host_memory_gib(placement);
  std::vector<CollectiveSample> collectives;
  if (world.size() > 1) collectives = measure_collectives(world, placement, options.quick);
  perfmodel::fit_collectives(collectives, machine);
  const double sharing = ranks_per_core(world, options.precision);
  if (sharing > shared_from) machine.share = {sharing, 0};
  const auto steps =
      measure_steps(world, probes(world.size(), options.precision, options.quick), placement, options.rounds);
  perfmodel::fit_steps(steps, options.precision, machine);

  comm::collective_guard(world, [&] {
    if (world.rank() != 0) return;
    auto notes = head_notes(provenance, options.precision, options.rounds);
    const auto table = perfmodel::residuals(steps, collectives, machine);
    notes.insert(notes.end(), table.begin(), table.end());
    for (const auto& line : table) std::cout << line << "\n";
    io::write_text_file(options.output, perfmodel::machine_text(machine, notes));
    std::cout << "machine  " << options.output << "\n" << std::flush;
  });
  return ExitCode::valid;
}

}  // namespace minisp::bench
