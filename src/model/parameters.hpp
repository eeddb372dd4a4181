// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The parameters of a model: one flat buffer, in which every tensor of the Hugging Face checkpoint has its
// place. Optimizers, reductions and shards see the buffer; layers see views into it; files see the names.
#pragma once

#include "config/architecture.hpp"
#include "math/precision.hpp"
#include "util/views.hpp"

#include <string>
#include <vector>

namespace minisp::model {

enum class Initialization { normal, ones, zeros };

struct ParameterEntry {
  std::string name;          ///< Hugging Face name
  std::vector<Index> shape;  ///< Hugging Face shape
  bool transposed = false;   ///< GPT-2's Conv1D: (in, out) there, (out, in) here
  Index offset = 0;          ///< in elements from the start of the flat buffer
  Index rows = 0;            ///< as stored here; vectors are (1, n)
  Index columns = 0;
  int layer = -1;  ///< block; -1 before the first, `layers` after the last
  Initialization initialization = Initialization::normal;
  double deviation_factor = 1;  ///< of the initial standard deviation

  Index size() const { return rows * columns; }
};

/// A contiguous part of the flat buffer that is needed together: the embeddings, one block, or the final norm
/// with an untied head.
struct ParameterUnit {
  Index offset = 0;  ///< in elements
  Index size = 0;
};

/// Order: embeddings, block after block, final norm, untied head. Tensors that one product reads together
/// (q, k and v; gate and up) follow each other, so that they form one matrix.
class ParameterLayout {
 public:
  explicit ParameterLayout(const config::Architecture& architecture);

  const std::vector<ParameterEntry>& entries() const { return entries_; }
  /// Embeddings, blocks, final norm and head: layers + 2 units that cover the buffer.
  const std::vector<ParameterUnit>& units() const { return units_; }
  /// Elements of the flat buffer: the number of parameters.
  Index size() const { return size_; }
  /// nullptr when there is none of that name.
  const ParameterEntry* find(const std::string& name) const;

 private:
  std::vector<ParameterEntry> entries_;
  std::vector<ParameterUnit> units_;
  Index size_ = 0;
};

/// Views of one block's tensors; those that the architecture lacks are empty.
template <class T>
struct BlockParameters {
  Vector<T> norm1_weight, norm1_bias;  // (hidden)
  Matrix<T> qkv_weight;                // ((h + 2 kv) d, hidden)
  Vector<T> qkv_bias;                  // ((h + 2 kv) d)
  Vector<T> q_norm, k_norm;            // (d)
  Matrix<T> o_weight;                  // (hidden, h d)
  Vector<T> o_bias;                    // (hidden)
  Vector<T> norm2_weight, norm2_bias;  // (hidden)
  Matrix<T> up_weight;    // SwiGLU: (2 intermediate, hidden), gate above up; GELU: (intermediate, hidden)
  Vector<T> up_bias;      // rows of up_weight
  Matrix<T> down_weight;  // (hidden, intermediate)
  Vector<T> down_bias;    // (hidden)
};

template <class T>
struct ModelParameters {
  Matrix<T> embedding;  // (vocabulary, hidden)
  Matrix<T> positions;  // (max_positions, hidden), learned positions only
  std::vector<BlockParameters<T>> blocks;
  Vector<T> norm_weight, norm_bias;  // (hidden)
  Matrix<T> head;                    // (vocabulary, hidden); the embedding itself when tied
};

/// Views of every unit; `units` holds the first element of each (ParameterLayout::units), which may hold
/// weights or gradients. Not owned.
template <class T>
ModelParameters<T> view_parameters(const config::Architecture& architecture, const ParameterLayout& layout,
                                   const std::vector<T*>& units);

/// values(i) = the architecture's usual initial value of element `first` + i of the flat buffer: normal(0,
/// deviation), norms 1, biases 0; GPT-2 divides the deviation of projections into the residual stream by
/// sqrt(2 layers). A pure function of (seed, tensor, element), so that any part can be made anywhere.
template <class T>
void initialize_parameters(const Exec& exec, const ParameterLayout& layout, std::uint64_t seed,
                           double deviation, Index first, const Vector<T>& values);

/// One tensor between the flat buffer's order and Hugging Face order (row-major, `entry.shape`).
template <class T>
std::vector<double> to_hugging_face(const ParameterEntry& entry, const HostVector<const T>& flat);
/// entry.size() values as they stand in the flat buffer.
template <class T>
std::vector<T> from_hugging_face(const ParameterEntry& entry, const std::vector<double>& tensor);

}  // namespace minisp::model
