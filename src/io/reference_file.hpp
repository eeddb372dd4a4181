// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A reference.h5: what a model and one training step of it must give, computed elsewhere.
#pragma once

#include "io/hdf5.hpp"

#include <map>
#include <string>
#include <vector>

namespace minisp::io {

struct ReferenceArray {
  Shape shape;
  std::vector<double> values;  ///< row-major
};

struct Reference {
  std::string file;
  /// By path without leading '/': "logits", "gradients/NAME", "hidden_states/0", "after_5_sgd_steps/NAME",
  /// ...
  std::map<std::string, ReferenceArray> arrays;
  /// Numeric attributes by "path@name", of the root "loss"; a scalar is a vector of one:
  /// "gradient_norm", "after_5_sgd_steps@losses", "after_5_sgd_steps@clip".
  std::map<std::string, std::vector<double>> attributes;

  bool has(const std::string& path) const { return arrays.count(path) > 0; }
  /// Throw Error (bad_input) that names file and entry when it is missing (or no scalar).
  const ReferenceArray& array(const std::string& path) const;
  double scalar(const std::string& attribute) const;
  const std::vector<double>& list(const std::string& attribute) const;
  /// Names below a group: "gradients" -> parameter names.
  std::vector<std::string> names(const std::string& group) const;
};

/// Reads the whole file (small models only) into memory. Error (bad_input) when it is missing or truncated.
Reference read_reference(const std::string& path);

}  // namespace minisp::io
