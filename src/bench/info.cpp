// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/commands.hpp"
#include "config/presets.hpp"
#include "io/provenance.hpp"

#include <fmt/format.h>

#include <iostream>

namespace minisp::bench {

ExitCode info_command(const comm::Communicator& world) {
  const auto provenance = io::gather_provenance(MPI_COMM_WORLD, {});
  if (world.rank() != 0) return ExitCode::valid;
  std::cout << io::version_text() << "\n\n";
  for (const auto& [label, value] : io::rows_of(provenance))
    std::cout << fmt::format("{:<22} {}\n", label, value);
  std::cout << "\npresets\n";
  for (const auto& name : config::preset_names())
    std::cout << fmt::format("  {:<30} {:>14} parameters  {}\n", name, config::preset(name).parameters(),
                             config::preset_description(name));
  return ExitCode::valid;
}

}  // namespace minisp::bench
