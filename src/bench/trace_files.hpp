// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A traced step as files: for the eye (Chrome's trace format, which Perfetto opens) and for simulators
// (Chakra's execution traces). doc/output_format.md says what stands in them.
#pragma once

#include "bench/step_trace.hpp"
#include "config/config.hpp"

#include <string>

namespace minisp::bench {

/// Error (bad_input) when what the deck asks for cannot be written or is there already. On one rank, before
/// the run.
void check_trace_paths(const config::OutputConfig& output);

struct TraceNotes {
  std::string plan;      ///< a few words
  std::string injected;  ///< delays that the deck put in
  double clock_error = 0;
};

/// Collective. One file for all ranks: a process a rank, a track of phases and one of collectives.
void write_chrome_trace(const parallel::Mesh& mesh, const std::string& path, const StepTrace& trace,
                        const TraceNotes& notes);

/// Collective. FOLDER/et.RANK.json, a graph of compute and collective nodes a rank, each written by its rank,
/// and FOLDER/comm_groups.json, the ranks of every communicator.
void write_execution_traces(const parallel::Mesh& mesh, const std::string& folder, const StepTrace& trace,
                            const TraceNotes& notes);

}  // namespace minisp::bench
