// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/block.hpp"

#include "model/linear.hpp"
#include "model/mlp.hpp"

#include <algorithm>

namespace minisp::model {

using config::Architecture;
using config::Mlp;

namespace {

Index up_width(const Architecture& a) {
  return (a.mlp == Mlp::swiglu ? 2 : 1) * a.intermediate;
}

/// Names of the parts of a block in Hugging Face models, for the observer.
struct PartNames {
  const char *norm1, *attention, *norm2, *mlp;
};
PartNames part_names(const Architecture& a) {
  if (a.family == config::Family::gpt2) return {"ln_1", "attn", "ln_2", "mlp"};
  return {"input_layernorm", "self_attn", "post_attention_layernorm", "mlp"};
}

template <class T>
void show(const BlockContext<T>& c, const char* group, const char* part, const Matrix<T>& tensor) {
  if (c.observe) c.observe(group + c.name + part, tensor);
}

template <class T>
void activation_forward(const BlockContext<T>& c, const Matrix<T>& up) {
  if (c.architecture.mlp == Mlp::swiglu)
    swiglu_forward<T>(c.exec, up, c.workspace.activation);
  else
    gelu_tanh_forward<T>(c.exec, up, c.workspace.activation);
}

/// workspace.activation: from the activation's gradient to the activation itself; up = its own gradient.
template <class T>
void activation_backward(const BlockContext<T>& c, const Matrix<T>& up) {
  const auto& activation = c.workspace.activation;
  if (c.architecture.mlp == Mlp::swiglu)
    swiglu_backward<T>(c.exec, up, activation, activation, up);
  else
    gelu_tanh_backward<T>(c.exec, up, activation, activation, up);
}

/// Gradients of a linear layer's weight and bias, both +=.
template <class T>
void linear_parameters_backward(const BlockContext<T>& c, const Matrix<const T>& dy, const Matrix<const T>& x,
                                const Matrix<Accumulate<T>>& dweight, const Vector<Accumulate<T>>& dbias) {
  linear_backward_weight<T>(c.exec, dy, x, Accumulation::add, dweight);
  if (dbias.extent(0) > 0) linear_backward_bias<T>(c.exec, dy, c.workspace.column_sums, dbias);
}

/// workspace.branch, whose branch is about to be added to the residual stream.
template <class T>
void drop_branch(const BlockContext<T>& c, Branch branch) {
  if (!c.dropout.active()) return;
  auto phase = c.timers.phase("dropout");
  apply_dropout<T>(c.exec, c.dropout, c.layer, branch, c.workspace.branch, c.workspace.branch);
}

/// The gradient of a branch's output: that of the residual stream, or what dropout leaves of it, in
/// workspace.branch.
template <class T>
Matrix<T> branch_gradient(const BlockContext<T>& c, Branch branch) {
  if (!c.dropout.active()) return c.workspace.gradient;
  auto phase = c.timers.phase("dropout");
  apply_dropout<T>(c.exec, c.dropout, c.layer, branch, c.workspace.gradient, c.workspace.branch);
  return c.workspace.branch;
}

template <class T>
HeadNorm<T> head_norm(const BlockContext<T>& c, const BlockParameters<T>& weights) {
  return {weights.q_norm, weights.k_norm, c.architecture.norm_epsilon};
}

}  // namespace

template <class T>
BlockState<T>::BlockState(const Architecture& a, const Attend<T>& attend_seam, Index rows)
    : input(uninitialized("minisp::block::input"), rows, a.hidden),
      norm1(a.norm, rows),
      fused(uninitialized("minisp::block::fused"), a.qk_norm ? rows : 0, a.q_size() + 2 * a.kv_size()),
      attend(attend_seam.allocate()),
      middle(uninitialized("minisp::block::middle"), rows, a.hidden),
      norm2(a.norm, rows),
      up(uninitialized("minisp::block::up"), rows, up_width(a)) {}

template <class T>
BlockState<T>::BlockState(const BlockState& first, config::Recompute recompute, const Architecture& a,
                          const Attend<T>& attend_seam, Index rows)
    : BlockState(first) {
  if (recompute == config::Recompute::full) {
    input = Matrix<T>(uninitialized("minisp::block::input"), rows, a.hidden);
    norm1 = NormState<T>(a.norm, rows);
    return;
  }
  *this = BlockState(a, attend_seam, rows);
  if (recompute == config::Recompute::none) return;
  const bool one_block = attend.own_output.data() == attend.output.data();
  attend.output = first.attend.output;
  attend.lse = first.attend.lse;
  if (one_block) attend.own_output = attend.output;
}

template <class T>
BlockWorkspace<T>::BlockWorkspace(const Architecture& a, const HeadLayout& layout, Index rows)
    : normed(uninitialized("minisp::block::normed"), rows, a.hidden),
      branch(uninitialized("minisp::block::branch"), rows, a.hidden),
      fused(uninitialized("minisp::block::fused"), rows, layout.fused_width()),
      activation(uninitialized("minisp::block::activation"), rows, a.intermediate),
      gradient(uninitialized("minisp::block::gradient"), rows, a.hidden),
      wide(uninitialized("minisp::block::wide"), is_mixed<T> && layout.blocks > 1 ? rows : 0, a.hidden),
      column_sums("minisp::block::column_sums",
                  std::max({norm_workspace(rows, a.hidden), math::column_sum_workspace(rows, up_width(a)),
                            math::column_sum_workspace(rows, layout.fused_width())})),
      head_norm("minisp::block::head_norm", a.qk_norm ? head_norm_workspace(rows, layout) : 0) {}

namespace {

/// From workspace.normed = norm1(input) to state.middle and workspace.normed = norm2(middle).
template <class T>
void attention_branch(const BlockContext<T>& c, const BlockParameters<T>& weights, BlockState<T>& state) {
  const auto& w = c.workspace;
  const Matrix<T> packed = c.attend.packed_qkv(state.attend);
  // Where nothing moves, the projection writes where attention reads.
  const Matrix<T> fused = state.fused.extent(0) > 0       ? state.fused
                          : c.attend.layout().blocks == 1 ? packed
                                                          : w.fused;
  {
    auto phase = c.timers.phase("linear_qkv");
    linear_forward<T>(c.exec, w.normed, weights.qkv_weight, weights.qkv_bias, Accumulation::overwrite, fused);
  }
  {
    auto phase = c.timers.phase("rope_pack");
    rope_pack_forward<T>(c.exec, c.attend.layout(), fused, c.positions, c.rope, head_norm(c, weights),
                         packed);
  }
  c.attend.forward(c.exec, state.attend);
  {
    auto phase = c.timers.phase("linear_output");
    linear_forward<T>(c.exec, state.attend.own_output, weights.o_weight, weights.o_bias,
                      Accumulation::overwrite, w.branch, w.wide);
  }
  show(c, "activations/", part_names(c.architecture).attention, w.branch);
  drop_branch(c, Branch::attention);
  auto phase = c.timers.phase("norm");
  residual_norm_forward<T>(c.exec, c.architecture, state.input, w.branch,
                           {weights.norm2_weight, weights.norm2_bias}, state.middle, w.normed, state.norm2);
}

template <class T>
void up_projection(const BlockContext<T>& c, const BlockParameters<T>& weights, BlockState<T>& state) {
  linear_forward<T>(c.exec, c.workspace.normed, weights.up_weight, weights.up_bias, Accumulation::overwrite,
                    state.up);
}

}  // namespace

template <class T>
void block_forward(const BlockContext<T>& c, const BlockParameters<T>& weights, BlockState<T>& state) {
  const auto& w = c.workspace;
  const auto names = part_names(c.architecture);
  show(c, "activations/", names.norm1, w.normed);
  attention_branch(c, weights, state);
  show(c, "activations/", names.norm2, w.normed);
  {
    auto phase = c.timers.phase("mlp");
    up_projection(c, weights, state);
    activation_forward<T>(c, state.up);
    linear_forward<T>(c.exec, w.activation, weights.down_weight, weights.down_bias, Accumulation::overwrite,
                      w.branch);
  }
  show(c, "activations/", names.mlp, w.branch);
  drop_branch(c, Branch::mlp);
}

template <class T>
void block_recompute(const BlockContext<T>& c, config::Recompute recompute, const BlockParameters<T>& weights,
                     BlockState<T>& state) {
  if (recompute == config::Recompute::none) return;
  if (recompute == config::Recompute::selective) return c.attend.recompute(c.exec, state.attend);
  {
    auto phase = c.timers.phase("norm");
    norm_recompute<T>(c.exec, c.architecture, state.input, {weights.norm1_weight, weights.norm1_bias},
                      state.norm1, c.workspace.normed);
  }
  attention_branch(c, weights, state);
  auto phase = c.timers.phase("mlp");
  up_projection(c, weights, state);
}

namespace {

template <class T>
void mlp_backward(const BlockContext<T>& c, const BlockParameters<T>& weights,
                  const BlockParameters<Accumulate<T>>& gradients, const Matrix<T>& dout,
                  BlockState<T>& state) {
  const auto& w = c.workspace;
  auto phase = c.timers.phase("mlp");
  linear_backward_input<T>(c.exec, dout, weights.down_weight, Accumulation::overwrite, w.activation);
  activation_backward<T>(c, state.up);
  linear_parameters_backward<T>(c, dout, w.activation, gradients.down_weight, gradients.down_bias);
  linear_parameters_backward<T>(c, state.up, w.normed, gradients.up_weight, gradients.up_bias);
  linear_backward_input<T>(c.exec, state.up, weights.up_weight, Accumulation::overwrite, w.branch);
}

template <class T>
void attention_backward(const BlockContext<T>& c, const BlockParameters<T>& weights,
                        const BlockParameters<Accumulate<T>>& gradients, const Matrix<T>& dout,
                        BlockState<T>& state) {
  const auto& w = c.workspace;
  {
    auto phase = c.timers.phase("linear_output");
    linear_parameters_backward<T>(c, dout, state.attend.own_output, gradients.o_weight, gradients.o_bias);
    linear_backward_input<T>(c.exec, dout, weights.o_weight, Accumulation::overwrite,
                             c.attend.own_output_gradient());
  }
  const Matrix<const T> packed_gradient = c.attend.backward(c.exec, state.attend);
  {
    auto phase = c.timers.phase("rope_pack");
    rope_pack_backward<T>(c.exec, c.attend.layout(), packed_gradient, c.positions, c.rope,
                          head_norm(c, weights), state.fused, w.fused,
                          {gradients.q_norm, gradients.k_norm, w.head_norm});
  }
  auto phase = c.timers.phase("linear_qkv");
  linear_parameters_backward<T>(c, w.fused, w.normed, gradients.qkv_weight, gradients.qkv_bias);
  linear_backward_input<T>(c.exec, w.fused, weights.qkv_weight, Accumulation::overwrite, w.branch);
}

}  // namespace

template <class T>
void block_backward(const BlockContext<T>& c, const BlockParameters<T>& weights,
                    const BlockParameters<Accumulate<T>>& gradients, BlockState<T>& state) {
  const auto& w = c.workspace;
  const auto& a = c.architecture;
  const auto names = part_names(a);
  const NormParameters<T> norm1{weights.norm1_weight, weights.norm1_bias};
  const NormParameters<T> norm2{weights.norm2_weight, weights.norm2_bias};

  {
    auto phase = c.timers.phase("norm");
    norm_recompute<T>(c.exec, a, state.middle, norm2, state.norm2, w.normed);
  }
  const Matrix<T> dmlp = branch_gradient(c, Branch::mlp);
  show(c, "activation_gradients/", names.mlp, dmlp);
  mlp_backward<T>(c, weights, gradients, dmlp, state);
  show(c, "activation_gradients/", names.norm2, w.branch);
  {
    auto phase = c.timers.phase("norm");
    norm_backward<T>(c.exec, a, state.middle, norm2, state.norm2, w.branch, Accumulation::add, w.gradient,
                     w.column_sums, {gradients.norm2_weight, gradients.norm2_bias});
    norm_recompute<T>(c.exec, a, state.input, norm1, state.norm1, w.normed);
  }
  const Matrix<T> dattention = branch_gradient(c, Branch::attention);
  show(c, "activation_gradients/", names.attention, dattention);
  attention_backward<T>(c, weights, gradients, dattention, state);
  show(c, "activation_gradients/", names.norm1, w.branch);
  auto phase = c.timers.phase("norm");
  norm_backward<T>(c.exec, a, state.input, norm1, state.norm1, w.branch, Accumulation::add, w.gradient,
                   w.column_sums, {gradients.norm1_weight, gradients.norm1_bias});
}

#define MINISP_INSTANTIATE(T)                                                                            \
  template struct BlockState<T>;                                                                         \
  template struct BlockWorkspace<T>;                                                                     \
  template void block_forward<T>(const BlockContext<T>&, const BlockParameters<T>&, BlockState<T>&);     \
  template void block_recompute<T>(const BlockContext<T>&, config::Recompute, const BlockParameters<T>&, \
                                   BlockState<T>&);                                                      \
  template void block_backward<T>(const BlockContext<T>&, const BlockParameters<T>&,                     \
                                  const BlockParameters<Accumulate<T>>&, BlockState<T>&);
MINISP_INSTANTIATE(bfloat16)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::model
