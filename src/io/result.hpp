// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What a run leaves behind, as plain data, and its place in the result file (doc/output_format.md).
#pragma once

#include "io/output_file.hpp"
#include "io/provenance.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace minisp::io {

/// Version of the layout; a reader may rely on what doc/output_format.md says for it.
inline constexpr int result_format_version = 1;
/// Value of the root attribute `format` of every result file.
inline constexpr const char* result_format_name = "miniSP result";

/// What the run was asked to do.
struct InputRecord {
  std::string deck_file, deck_text;
  std::vector<std::string> overrides;                         ///< "key=value" as given
  std::vector<std::pair<std::string, std::string>> settings;  ///< every key of the deck with its final value
};

/// One entry a step, warm-up steps first.
struct StepMetrics {
  Index warmup_steps = 0;            ///< the first entries, which the figure of merit leaves out
  std::vector<Index> step;           ///< counted from 0
  std::vector<double> loss;          ///< nats per valid token, before the step
  std::vector<double> grad_norm;     ///< global 2-norm, before clipping
  std::vector<double> seconds;       ///< slowest rank
  std::vector<double> tokens_per_s;  ///< global tokens per second
  std::vector<double> learning_rate;
  std::optional<double> entropy_rate;  ///< nats a valid token: the least loss that any model can reach
};

/// Seconds of one phase summed over the timed steps, on every rank.
struct PhaseRow {
  std::string name;
  std::vector<double> seconds;
};

/// One collective in one phase, summed over the timed steps; each vector has one entry a rank.
struct TrafficRow {
  std::string collective, phase;
  std::vector<Index> calls;
  std::vector<Index> bytes_on_node, bytes_off_node;  ///< sent to ranks on this node and on others
  std::vector<Index> expected_bytes;                 ///< by the decomposition's formula, both tiers together
  std::vector<double> seconds;  ///< that the rank was kept, waiting for late ranks included: the sum of
  std::vector<double> own;      ///< ... copies and sums of its own in the call,
  std::vector<double> wait;     ///< ... waiting for the last rank to arrive,
  std::vector<double> wire;     ///< ... and moving bytes after that
};

/// The ranks' clocks against rank 0's, and who is waited for; one entry a rank.
struct ArrivalRecord {
  std::vector<double> clock_offset;  ///< seconds to add to the rank's clock
  std::vector<double> clock_drift;   ///< change of the offset during the timed steps
  std::vector<double> clock_error;   ///< bound on the error of the offset
  std::vector<double> waited_for;    ///< seconds that all ranks together waited for this one
};

/// Bytes a rank, one entry each.
struct MemoryRecord {
  std::vector<Index> predicted, measured;
};

struct FigureOfMerit {
  double tokens_per_s = 0;       ///< global; median over the timed steps
  double model_flops_per_s = 0;  ///< all ranks, by the fixed formula of doc/figure_of_merit.md
  double gemm_flops_per_s = 0;   ///< all ranks, measured in the same run
  double gemm_fraction = 0;      ///< model_flops_per_s / gemm_flops_per_s
  double median_step_seconds = 0;
};

/// One check behind the verdict: passed when value <= limit.
struct CheckRow {
  std::string name;
  double value = 0, limit = 0;
  bool passed = false;
};

struct Verdict {
  bool valid = false;
  std::vector<std::string> reasons;  ///< why it is INVALID, one sentence each
  std::vector<CheckRow> checks;
};

struct RunResult {
  std::string precision;      ///< "fp64", "fp32"
  std::string decomposition;  ///< parallel.system
  std::string optimizer;      ///< "sgd", "adamw"
  Provenance provenance;
  InputRecord input;
  StepMetrics metrics;
  std::vector<PhaseRow> phases;
  std::vector<TrafficRow> traffic;
  ArrivalRecord arrivals;
  MemoryRecord memory;
  FigureOfMerit figure_of_merit;
  Verdict verdict;
};

/// Collective. Writes everything of `result` (read on rank 0 only); does not commit. Global arrays go beside
/// it with OutputFile::write_global, under the names below.
void write_result(OutputFile& file, const RunResult& result);

/// Upper estimate of the bytes that write_result adds.
std::uint64_t estimated_bytes(const RunResult& result);

/// Names of the global arrays. Activations are (sequence, position, features), logits (sequence, position,
/// vocabulary); gradients and weights have Hugging Face names and shapes.
inline std::string activation_path(const std::string& module) {
  return "/activations/" + module;
}
inline std::string hidden_state_path(Index block) {
  return "/activations/hidden_states/" + std::to_string(block);
}
inline std::string logits_path() {
  return "/logits";
}
inline std::string gradient_path(const std::string& parameter) {
  return "/gradients/" + parameter;
}
inline std::string weight_path(const std::string& parameter) {
  return "/weights/" + parameter;
}

}  // namespace minisp::io
