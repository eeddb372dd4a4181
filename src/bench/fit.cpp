// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/commands.hpp"
#include "config/deck.hpp"
#include "io/output_file.hpp"
#include "io/parts_file.hpp"
#include "perfmodel/figures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ostream>

namespace minisp::bench {

ExitCode fit_command(const FitOptions& options, std::ostream& out) {
  const auto start = perfmodel::read_machine(options.machine);
  const auto rows = perfmodel::parse_figures(config::read_deck_text(options.table), options.table);
  io::check_output_path(options.output, options.overwrite);
  auto fit = perfmodel::fit_figures(rows, options.figures, start);
  const auto which = options.figures.empty()
                         ? std::string("all figures")
                         : fmt::format("figure{} {}", options.figures.size() == 1 ? "" : "s",
                                       fmt::join(options.figures, ", "));
  fit.machine.name += ", " + which;
  std::vector<std::string> notes = {
      fmt::format("Made by `minisp fit`: {} of {}, starting from {}.", which, options.table, options.machine),
      "",
      "The figures are shares and ratios, no seconds: every time here could be multiplied by one factor and "
      "would",
      "explain them as well. That factor hangs on the rates of computing, which are those of the start and "
      "were not",
      "fitted. Nor do the figures tell bandwidth, latency and waiting apart. So these constants reproduce "
      "ratios; they",
      "are no measurement of the cluster, and seconds predicted from them are not its seconds.",
      ""};
  for (const auto& line : perfmodel::fit_text(fit)) {
    out << line << "\n";
    notes.push_back(line);
  }
  io::write_text_file(options.output, perfmodel::machine_text(fit.machine, notes));
  out << "machine  " << options.output << "\n";
  return ExitCode::valid;
}

}  // namespace minisp::bench
