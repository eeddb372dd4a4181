// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// `minisp compare`: judges a result file against another one, or against a reference.h5.
#pragma once

#include "io/hdf5.hpp"
#include "util/error.hpp"

#include <cmath>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace minisp::bench {

struct CompareOptions {
  std::optional<double> tolerance;          ///< overrides the one by tensor kind and precision
  bool json = false;                        ///< machine-readable report
  std::uint64_t piece_elements = 1u << 20;  ///< elements of a tensor held in memory at a time, of each file
};

/// Groups of tensors, each with its own tolerance.
enum class TensorKind { loss, gradient_norm, logits, activation, gradient, weight, key_bias };
const char* to_string(TensorKind kind);

/// Largest relative 2-norm error that rounding explains (infinity: any), by kind, precision of the less
/// precise file ("fp64", "fp32"), optimizer ("sgd", "adamw", empty) and optimizer steps that lie behind the
/// tensor.
double default_tolerance(TensorKind kind, const std::string& precision, const std::string& optimizer,
                         std::int64_t steps);

struct TensorComparison {
  std::string name;
  TensorKind kind{};
  io::Shape shape;            ///< of both
  double relative_error = 0;  ///< ||a - b|| / ||b||; NaN or infinite where one holds such a value
  double tolerance = 0;
  io::Shape worst;  ///< index of the element with the largest |a - b| (a NaN is the largest)
  double worst_a = 0, worst_b = 0;
  bool passed() const { return std::isfinite(relative_error) && relative_error <= tolerance; }
};

/// Two arrays of `shape` in memory, of equal size; `b` is the one that is right.
TensorComparison compare_values(const std::string& name, TensorKind kind, const io::Shape& shape,
                                const std::vector<double>& a, const std::vector<double>& b, double tolerance);

struct ComparisonReport {
  std::string file_a, file_b;
  std::string title_a, title_b;  ///< decomposition, ranks and precision in a few words
  std::string precision;         ///< of the less precise file
  std::vector<TensorComparison> tensors;
  std::vector<std::string> failures;  ///< missing tensors, different shapes: each makes it INVALID
  std::vector<std::string> notes;     ///< settings that differ, groups that only one file holds
  std::optional<double> tokens_per_s_a, tokens_per_s_b;

  bool valid() const;
  ExitCode exit_code() const { return valid() ? ExitCode::valid : ExitCode::invalid; }
};

/// `a` is judged against `b`. Error (bad_input) when a file cannot be read or is neither a result of miniSP
/// nor a reference. Tensors are streamed in pieces. Not collective.
ComparisonReport compare_files(const std::string& a, const std::string& b, const CompareOptions& options);

/// A table, one line a kind with its worst tensor and every failing tensor, both figures of merit and their
/// "ratio", and last "VALID: yes" or "VALID: no".
void print_report(std::ostream& out, const ComparisonReport& report);
void print_json(std::ostream& out, const ComparisonReport& report);

/// Compares, prints and returns 0 or 1; errors are thrown.
ExitCode compare_command(const std::string& a, const std::string& b, const CompareOptions& options,
                         std::ostream& out);

}  // namespace minisp::bench
