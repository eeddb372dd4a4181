// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Tensors of a step as global arrays (sequence, position, features), which do not depend on the
// decomposition: collected from the rows of every rank.
#pragma once

#include "io/output_file.hpp"
#include "model/block.hpp"
#include "parallel/mesh.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace minisp::train {

template <class T>
class Recorder {
 public:
  /// Records what `wanted` says yes to. `mesh` outlives the recorder.
  Recorder(const parallel::Mesh& mesh, Index accumulation, std::function<bool(const std::string&)> wanted);

  /// To be shown the tensors of one whole step, micro-step after micro-step. The recorder stays where it is
  /// as long as the observer is in use.
  model::TensorObserver<T> observer();

  std::vector<std::string> names() const;
  /// (accumulation * B, S, features).
  std::vector<Index> shape(const std::string& name) const;
  /// Collective. The whole array, row-major, on every rank; for small models.
  std::vector<double> gather(const std::string& name) const;
  /// Collective. Writes one tensor as dataset `path`, each rank its own rows.
  void write(io::OutputFile& file, const std::string& name, const std::string& path, const std::string& units,
             const std::string& description) const;

 private:
  struct Tensor {
    Index features = 0;
    std::vector<Accumulate<T>> rows;  // (accumulation * rows of this rank, features)
  };
  std::vector<io::Slab> slabs(Index features) const;

  const parallel::Mesh& mesh_;
  Index accumulation_;
  std::function<bool(const std::string&)> wanted_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace minisp::train
