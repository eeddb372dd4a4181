// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/parameters.hpp"

#include "math/random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace minisp::model {

using config::Architecture;
using config::Family;

namespace {

/// Collects entries in the order of the flat buffer.
class LayoutBuilder {
 public:
  explicit LayoutBuilder(std::vector<ParameterEntry>& entries) : entries_(entries) {}

  void set_layer(int layer, std::string prefix) {
    layer_ = layer;
    prefix_ = std::move(prefix);
  }
  void vector(const std::string& name, Index n, Initialization initialization) {
    add({prefix_ + name, {n}, false, 0, 1, n, layer_, initialization, 1});
  }
  /// (out, in) as stored here.
  void matrix(const std::string& name, Index out, Index in, bool transposed = false,
              double deviation_factor = 1) {
    const std::vector<Index> shape = transposed ? std::vector{in, out} : std::vector{out, in};
    add({prefix_ + name, shape, transposed, 0, out, in, layer_, Initialization::normal, deviation_factor});
  }
  Index size() const { return size_; }

 private:
  void add(ParameterEntry entry) {
    entry.offset = size_;
    size_ += entry.size();
    entries_.push_back(std::move(entry));
  }

  std::vector<ParameterEntry>& entries_;
  std::string prefix_;
  int layer_ = -1;
  Index size_ = 0;
};

void add_norm(LayoutBuilder& builder, const Architecture& a, const std::string& name) {
  builder.vector(name + ".weight", a.hidden, Initialization::ones);
  if (a.norm == config::Norm::layer) builder.vector(name + ".bias", a.hidden, Initialization::zeros);
}

void add_gpt2_block(LayoutBuilder& builder, const Architecture& a) {
  const double residual = 1 / std::sqrt(2.0 * static_cast<double>(a.layers));
  const Index qkv = a.q_size() + 2 * a.kv_size();
  add_norm(builder, a, "ln_1");
  builder.matrix("attn.c_attn.weight", qkv, a.hidden, true);
  builder.vector("attn.c_attn.bias", qkv, Initialization::zeros);
  builder.matrix("attn.c_proj.weight", a.hidden, a.q_size(), true, residual);
  builder.vector("attn.c_proj.bias", a.hidden, Initialization::zeros);
  add_norm(builder, a, "ln_2");
  builder.matrix("mlp.c_fc.weight", a.intermediate, a.hidden, true);
  builder.vector("mlp.c_fc.bias", a.intermediate, Initialization::zeros);
  builder.matrix("mlp.c_proj.weight", a.hidden, a.intermediate, true, residual);
  builder.vector("mlp.c_proj.bias", a.hidden, Initialization::zeros);
}

void add_llama_block(LayoutBuilder& builder, const Architecture& a) {
  add_norm(builder, a, "input_layernorm");
  builder.matrix("self_attn.q_proj.weight", a.q_size(), a.hidden);
  builder.matrix("self_attn.k_proj.weight", a.kv_size(), a.hidden);
  builder.matrix("self_attn.v_proj.weight", a.kv_size(), a.hidden);
  if (a.qkv_bias) {
    builder.vector("self_attn.q_proj.bias", a.q_size(), Initialization::zeros);
    builder.vector("self_attn.k_proj.bias", a.kv_size(), Initialization::zeros);
    builder.vector("self_attn.v_proj.bias", a.kv_size(), Initialization::zeros);
  }
  if (a.qk_norm) {
    builder.vector("self_attn.q_norm.weight", a.head_dim, Initialization::ones);
    builder.vector("self_attn.k_norm.weight", a.head_dim, Initialization::ones);
  }
  builder.matrix("self_attn.o_proj.weight", a.hidden, a.q_size());
  add_norm(builder, a, "post_attention_layernorm");
  builder.matrix("mlp.gate_proj.weight", a.intermediate, a.hidden);
  builder.matrix("mlp.up_proj.weight", a.intermediate, a.hidden);
  builder.matrix("mlp.down_proj.weight", a.hidden, a.intermediate);
}

/// Deals views out of one unit in the order of the layout.
template <class T>
class ViewDealer {
 public:
  explicit ViewDealer(T* unit) : first_(unit), next_(unit) {}

  Vector<T> vector(bool present, Index n) {
    if (!present) return {};
    return Vector<T>(take(n), n);
  }
  Matrix<T> matrix(bool present, Index rows, Index columns) {
    if (!present) return {};
    return Matrix<T>(take(rows * columns), rows, columns);
  }
  Index dealt() const { return next_ - first_; }

 private:
  T* take(Index n) {
    T* const part = next_;
    next_ += n;
    return part;
  }

  T* first_;
  T* next_;
};

template <class T>
BlockParameters<T> view_block(const Architecture& a, ViewDealer<T>& deal) {
  const bool layer_norm = a.norm == config::Norm::layer;
  const Index qkv = a.q_size() + 2 * a.kv_size();
  const Index up = (a.mlp == config::Mlp::swiglu ? 2 : 1) * a.intermediate;
  BlockParameters<T> b;
  b.norm1_weight = deal.vector(true, a.hidden);
  b.norm1_bias = deal.vector(layer_norm, a.hidden);
  b.qkv_weight = deal.matrix(true, qkv, a.hidden);
  b.qkv_bias = deal.vector(a.qkv_bias, qkv);
  b.q_norm = deal.vector(a.qk_norm, a.head_dim);
  b.k_norm = deal.vector(a.qk_norm, a.head_dim);
  b.o_weight = deal.matrix(true, a.hidden, a.q_size());
  b.o_bias = deal.vector(a.linear_bias, a.hidden);
  b.norm2_weight = deal.vector(true, a.hidden);
  b.norm2_bias = deal.vector(layer_norm, a.hidden);
  b.up_weight = deal.matrix(true, up, a.hidden);
  b.up_bias = deal.vector(a.linear_bias, up);
  b.down_weight = deal.matrix(true, a.hidden, a.intermediate);
  b.down_bias = deal.vector(a.linear_bias, a.hidden);
  return b;
}

/// Units by layer: -1, 0 .. layers - 1, layers.
std::vector<ParameterUnit> units_of(const std::vector<ParameterEntry>& entries, int layers) {
  std::vector<ParameterUnit> units(static_cast<std::size_t>(layers) + 2);
  Index offset = 0;
  for (int layer = -1; layer <= layers; ++layer) {
    auto& unit = units[static_cast<std::size_t>(layer + 1)];
    unit.offset = offset;
    for (const auto& entry : entries)
      if (entry.layer == layer) unit.size += entry.size();
    offset += unit.size;
  }
  return units;
}

}  // namespace

ParameterLayout::ParameterLayout(const Architecture& a) {
  LayoutBuilder builder(entries_);
  const bool gpt2 = a.family == Family::gpt2;
  const std::string body = gpt2 ? "transformer." : "model.";
  builder.set_layer(-1, body);
  builder.matrix(gpt2 ? "wte.weight" : "embed_tokens.weight", a.vocabulary, a.hidden);
  if (a.positions == config::Positions::learned) builder.matrix("wpe.weight", a.max_positions, a.hidden);
  for (int layer = 0; layer < a.layers; ++layer) {
    builder.set_layer(layer, fmt::format("{}{}.{}.", body, gpt2 ? "h" : "layers", layer));
    gpt2 ? add_gpt2_block(builder, a) : add_llama_block(builder, a);
  }
  builder.set_layer(static_cast<int>(a.layers), body);
  add_norm(builder, a, gpt2 ? "ln_f" : "norm");
  builder.set_layer(static_cast<int>(a.layers), "");
  if (!a.tied_head) builder.matrix("lm_head.weight", a.vocabulary, a.hidden);
  size_ = builder.size();
  units_ = units_of(entries_, static_cast<int>(a.layers));
}

const ParameterEntry* ParameterLayout::find(const std::string& name) const {
  for (const auto& entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

template <class T>
ModelParameters<T> view_parameters(const Architecture& a, const ParameterLayout& layout,
                                   const std::vector<T*>& units) {
  ModelParameters<T> p;
  const auto check = [&](const ViewDealer<T>& deal, std::size_t unit) {
    if (deal.dealt() != layout.units()[unit].size)
      throw std::logic_error("view_parameters: the views do not cover the unit");
  };
  ViewDealer<T> embeddings(units.front());
  p.embedding = embeddings.matrix(true, a.vocabulary, a.hidden);
  p.positions = embeddings.matrix(a.positions == config::Positions::learned, a.max_positions, a.hidden);
  check(embeddings, 0);
  for (std::size_t unit = 1; unit + 1 < units.size(); ++unit) {
    ViewDealer<T> block(units[unit]);
    p.blocks.push_back(view_block(a, block));
    check(block, unit);
  }
  ViewDealer<T> last(units.back());
  p.norm_weight = last.vector(true, a.hidden);
  p.norm_bias = last.vector(a.norm == config::Norm::layer, a.hidden);
  p.head = a.tied_head ? p.embedding : last.matrix(true, a.vocabulary, a.hidden);
  check(last, units.size() - 1);
  return p;
}

template <class T>
void initialize_parameters(const Exec& exec, const ParameterLayout& layout, std::uint64_t seed,
                           double deviation, Index first, const Vector<T>& values) {
  const Index last = first + static_cast<Index>(values.extent(0));
  std::uint64_t stream = 0;
  for (const auto& entry : layout.entries()) {
    const std::uint64_t tensor = stream++;
    const Index begin = std::max(first, entry.offset), end = std::min(last, entry.offset + entry.size());
    if (begin >= end) continue;
    const auto part = Kokkos::subview(values, Kokkos::make_pair(begin - first, end - first));
    if (entry.initialization != Initialization::normal) {
      Kokkos::deep_copy(exec, part, entry.initialization == Initialization::ones ? T(1) : T(0));
      continue;
    }
    const double scale = deviation * entry.deviation_factor;
    const Index element = begin - entry.offset;
    Kokkos::parallel_for(
        "minisp::parameters::initialize", RowPolicy(exec, 0, end - begin), KOKKOS_LAMBDA(const Index i) {
          part(i) = static_cast<T>(
              scale * math::random_normal(seed, tensor, static_cast<std::uint64_t>(element + i)));
        });
  }
}

template <class T>
std::vector<double> to_hugging_face(const ParameterEntry& entry, const HostVector<const T>& flat) {
  std::vector<double> tensor(static_cast<std::size_t>(entry.size()));
  for (Index r = 0; r < entry.rows; ++r)
    for (Index c = 0; c < entry.columns; ++c)
      tensor[static_cast<std::size_t>(entry.transposed ? c * entry.rows + r : r * entry.columns + c)] =
          static_cast<double>(flat(entry.offset + r * entry.columns + c));
  return tensor;
}

template <class T>
std::vector<T> from_hugging_face(const ParameterEntry& entry, const std::vector<double>& tensor) {
  std::vector<T> stored(static_cast<std::size_t>(entry.size()));
  for (Index r = 0; r < entry.rows; ++r)
    for (Index c = 0; c < entry.columns; ++c)
      stored[static_cast<std::size_t>(r * entry.columns + c)] = static_cast<T>(
          tensor[static_cast<std::size_t>(entry.transposed ? c * entry.rows + r : r * entry.columns + c)]);
  return stored;
}

#define MINISP_INSTANTIATE(T)                                                                               \
  template ModelParameters<T> view_parameters<T>(const Architecture&, const ParameterLayout&,               \
                                                 const std::vector<T*>&);                                   \
  template void initialize_parameters<T>(const Exec&, const ParameterLayout&, std::uint64_t, double, Index, \
                                         const Vector<T>&);                                                 \
  template std::vector<double> to_hugging_face<T>(const ParameterEntry&, const HostVector<const T>&);       \
  template std::vector<T> from_hugging_face<T>(const ParameterEntry&, const std::vector<double>&);
MINISP_INSTANTIATE(bfloat16)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::model
