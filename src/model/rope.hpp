// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// From the fused q, k, v projection to what attention reads, in one pass: per-head RMSNorm of q and k where
// the model has it (Qwen3), rotary position embedding (Su et al., arXiv:2104.09864) where the model has it,
// and the change of layout into head blocks (head_layout.hpp).
//
// Rotation, in the convention of Hugging Face checkpoints (element i is paired with i + d/2):
//   out(i)       = x(i) cos(p f_i) - x(i + d/2) sin(p f_i)
//   out(i + d/2) = x(i + d/2) cos(p f_i) + x(i) sin(p f_i),   f_i = theta^(-2i/d), p the row's position
// Gradients: dfused =, those of the norm weights +=.
#pragma once

#include "config/architecture.hpp"
#include "math/precision.hpp"
#include "model/head_layout.hpp"
#include "util/views.hpp"

#include <optional>
#include <vector>

namespace minisp::model {

/// The frequencies f_i, i < head_dim/2. With scaling, as Transformers' rope_type "llama3": wavelengths beyond
/// original_max_positions / low_frequency_factor are stretched by `factor`, those below
/// original_max_positions / high_frequency_factor are kept, between them the two are blended linearly in
/// original_max_positions / wavelength.
std::vector<double> rope_frequencies(double theta, int head_dim,
                                     const std::optional<config::RopeScaling>& scaling);

/// cos(p f_i) and sin(p f_i), (positions, head_dim/2), computed in double and rounded once. A table of no
/// rows stands for no rotation (learned positions).
template <class T>
struct RopeTable {
  Matrix<Accumulate<T>> cosine, sine;

  bool rotates() const { return cosine.extent(0) > 0; }
};
template <class T>
RopeTable<T> make_rope_table(const std::vector<double>& frequencies, Index positions);

/// Weights (head_dim) of the per-head norms; empty views where the model has none.
template <class T>
struct HeadNorm {
  Vector<const T> q_weight, k_weight;
  double epsilon = 0;

  bool present() const { return q_weight.extent(0) > 0; }
};

/// packed (blocks*rows, layout.packed_width()) = from fused (rows, layout.fused_width()); positions (rows),
/// below the table's rows. With one block the two may be the same memory; then nothing at all is done where
/// the model has neither norm nor rotation.
template <class T>
void rope_pack_forward(const Exec& exec, const HeadLayout& layout, const Matrix<const T>& fused,
                       const Vector<const int>& positions, const RopeTable<T>& table, const HeadNorm<T>& norm,
                       const Matrix<T>& packed);

/// Gradient views (head_dim) of the per-head norms, and workspace: head_norm_workspace(rows, layout)
/// elements; all empty where the model has no such norm.
template <class T>
struct HeadNormGradient {
  Vector<Accumulate<T>> q_weight, k_weight, workspace;
};
Index head_norm_workspace(Index rows, const HeadLayout& layout);

/// dfused (rows, fused_width) = from dpacked (blocks*rows, packed_width): rotated back, the parts of a K/V
/// head that several blocks hold summed in block order, and through the per-head norm, for which `fused` is
/// what the forward pass read (it is not read, and may be empty, where there is no norm). With one block
/// dfused may be the same memory as dpacked; it may not be that of `fused`. Gradients of the norm weights +=.
template <class T>
void rope_pack_backward(const Exec& exec, const HeadLayout& layout, const Matrix<const T>& dpacked,
                        const Vector<const int>& positions, const RopeTable<T>& table,
                        const HeadNorm<T>& norm, const Matrix<const T>& fused, const Matrix<T>& dfused,
                        const HeadNormGradient<T>& norm_gradient);

}  // namespace minisp::model
