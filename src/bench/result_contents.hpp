// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What a file holds that can be compared, under the same names for results and references.
#pragma once

#include "bench/compare.hpp"
#include "io/hdf5.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace minisp::bench {

struct ComparableTensor {
  TensorKind kind{};
  io::Shape shape;
  std::string dataset;         ///< path in the file; empty: `values` holds all
  std::vector<double> values;  ///< row-major, of a reference's attributes

  std::vector<double> read(hid_t file, const io::Slab& slab) const;
};

struct ResultContents {
  std::string path;
  io::H5File file;
  bool is_reference = false;
  std::string precision = "fp64";
  std::string optimizer;        ///< empty for a reference
  std::int64_t steps = 0;       ///< since the beginning of the training, warm-up included
  std::int64_t first_step = 0;  ///< of the run: 0, or after a restart the number of those done before
  std::string title;            ///< decomposition, ranks, precision in a few words
  std::map<std::string, std::string> settings;
  std::optional<double> tokens_per_s;
  std::optional<std::string> invalid;  ///< the first reason, where the file's own verdict is INVALID
  /// "metrics/loss", "metrics/grad_norm", "logits", "activations/...", "gradients/NAME", "weights/NAME".
  std::map<std::string, ComparableTensor> tensors;
};

/// Opens a result or a reference; of a reference only what does not depend on the run. Error (bad_input) when
/// it is neither.
ResultContents open_contents(const std::string& path);

/// Leaves out the losses and gradient norms of earlier steps, which a run that was restarted later lacks.
void drop_steps_before(ResultContents& contents, std::int64_t first_step);

/// Adds the tensors of a reference that a run like `run` can be held against: after one step its loss,
/// logits, activations and gradients; after five steps with the same optimizer its losses, norms and weights.
void add_reference_tensors(ResultContents& reference, const ResultContents& run);

}  // namespace minisp::bench
