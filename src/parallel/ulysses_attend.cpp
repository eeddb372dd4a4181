// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/ulysses_attend.hpp"

#include "comm/all_to_all.hpp"

#include <stdexcept>

namespace minisp::parallel {

namespace {

using model::AttendState;
using model::HeadLayout;
using model::HeadRows;

HeadLayout layout_of(const Plan& plan, const config::Architecture& architecture) {
  return {.blocks = plan.sequence_degree,
          .total_q_heads = static_cast<int>(architecture.heads),
          .total_kv_heads = static_cast<int>(architecture.kv_heads),
          .head_dim = static_cast<int>(architecture.head_dim)};
}

/// Elements of the matrices over attention rows.
struct Sizes {
  Index rows, packed, output, lse;

  Sizes(const HeadLayout& layout, Index own_rows)
      : rows(layout.blocks * own_rows),
        packed(rows * layout.packed_width()),
        output(rows * layout.q_heads() * layout.head_dim),
        lse(rows * layout.q_heads()) {}
};

/// The heads of q, k and v in packed rows.
template <class T>
struct PackedHeads {
  HeadRows<T> q, k, v;

  PackedHeads(const Matrix<T>& packed, const HeadLayout& layout) {
    const Index stride = row_stride(packed);
    const Index d = layout.head_dim;
    T* const data = packed.data();
    q = {data, stride, layout.q_heads(), layout.head_dim};
    k = {data + layout.q_heads() * d, stride, layout.kv_heads(), layout.head_dim};
    v = {data + (layout.q_heads() + layout.kv_heads()) * d, stride, layout.kv_heads(), layout.head_dim};
  }
};

template <class T>
HeadRows<T> output_heads(const Matrix<T>& output, const HeadLayout& layout) {
  return {output.data(), row_stride(output), layout.q_heads(), layout.head_dim};
}

/// (sequence of the group, position) -> row in what a rank of the group receives: the rows of its first rank,
/// of its second, ...
std::vector<std::vector<int>> attention_rows(const Group& group, Index length) {
  std::vector<std::vector<int>> row_of(static_cast<std::size_t>(group.sequences()),
                                       std::vector<int>(static_cast<std::size_t>(length)));
  int row = 0;
  for (const auto& shards : group.shards)
    for (const auto& shard : shards)
      for (Index p = shard.begin; p < shard.end; ++p)
        row_of[static_cast<std::size_t>(shard.sequence - group.sequence_begin)][static_cast<std::size_t>(p)] =
            row++;
  return row_of;
}

}  // namespace

template <class T>
UlyssesAttend<T>::UlyssesAttend(const Mesh& mesh, const config::Architecture& architecture,
                                PhaseTimers& timers)
    : mesh_(mesh),
      timers_(timers),
      layout_(layout_of(mesh.plan(), architecture)),
      rows_(mesh.plan().rows(mesh.rank())),
      row_of_(attention_rows(mesh.group(), mesh.plan().sequence_length)),
      attention_(layout_.blocks * rows_, layout_.q_heads(), layout_.kv_heads(), layout_.head_dim) {
  const Index rows = layout_.blocks * rows_;
  const Index output_width = static_cast<Index>(layout_.q_heads()) * layout_.head_dim;
  if (layout_.blocks > 1)
    packed_ = Matrix<T>(uninitialized("minisp::attend::packed"), rows, layout_.packed_width());
  qkv_gradient_ = Matrix<T>(uninitialized("minisp::attend::qkv_gradient"), rows, layout_.packed_width());
  own_gradient_ = Matrix<T>(uninitialized("minisp::attend::own_gradient"), rows, output_width);
}

template <class T>
void UlyssesAttend<T>::set_documents(const std::vector<std::vector<int>>& starts) {
  if (starts.size() != row_of_.size())
    throw std::invalid_argument("set_documents: one list of starts for each sequence of the group");
  const auto rows = static_cast<std::size_t>(layout_.blocks * rows_);
  map_.query_row.resize(rows);
  map_.key_begin.resize(rows);
  map_.key_end.resize(rows);
  std::size_t i = 0;
  for (std::size_t s = 0; s < row_of_.size(); ++s) {
    const int first = static_cast<int>(i);
    for (std::size_t p = 0; p < row_of_[s].size(); ++p, ++i) {
      map_.query_row[i] = row_of_[s][p];
      map_.key_begin[i] = first + starts[s].at(p);
      map_.key_end[i] = static_cast<int>(i) + 1;
    }
  }
  map_.key_row = map_.query_row;
  attention_.set_map(map_);
}

template <class T>
AttendState<T> UlyssesAttend<T>::allocate() const {
  const Index rows = layout_.blocks * rows_;
  const Index output_width = static_cast<Index>(layout_.q_heads()) * layout_.head_dim;
  AttendState<T> state;
  state.qkv = Matrix<T>(uninitialized("minisp::attend::qkv"), rows, layout_.packed_width());
  state.output = Matrix<T>(uninitialized("minisp::attend::output"), rows, output_width);
  state.lse = Matrix<Accumulate<T>>(uninitialized("minisp::attend::lse"), layout_.q_heads(), rows);
  state.own_output = layout_.blocks == 1
                         ? state.output
                         : Matrix<T>(uninitialized("minisp::attend::own_output"), rows, output_width);
  return state;
}

template <class T>
Matrix<T> UlyssesAttend<T>::packed_qkv(AttendState<T>& state) {
  return layout_.blocks == 1 ? state.qkv : packed_;
}

template <class T>
void UlyssesAttend<T>::exchange(const Exec& exec, const Matrix<const T>& send, const Matrix<T>& receive,
                                const char* name) {
  auto time = timers_.phase(name);
  auto label = mesh_.sequence().ledger().phase(name);
  comm::all_to_all(mesh_.sequence(), exec, send, receive);
}

template <class T>
void UlyssesAttend<T>::recompute(const Exec& exec, AttendState<T>& state) {
  auto time = timers_.phase(phase::attention_forward);
  const PackedHeads<const T> in(state.qkv, layout_);
  attention_.forward(exec, in.q, in.k, in.v, output_heads(state.output, layout_), state.lse);
}

template <class T>
void UlyssesAttend<T>::forward(const Exec& exec, AttendState<T>& state) {
  const bool exchanged = layout_.blocks > 1;
  if (exchanged) exchange(exec, packed_, state.qkv, phase::exchange_qkv_forward);
  recompute(exec, state);
  if (exchanged) exchange(exec, state.output, state.own_output, phase::exchange_output_forward);
}

template <class T>
Matrix<const T> UlyssesAttend<T>::backward(const Exec& exec, AttendState<T>& state) {
  const bool exchanged = layout_.blocks > 1;
  Matrix<T> output_gradient = own_gradient_;
  if (exchanged) {
    // It may lie in packed_, whose rows are wider: nothing is sent from there before the next layer,
    // and what arrives there below comes after its last use.
    output_gradient = Matrix<T>(packed_.data(), own_gradient_.extent(0), own_gradient_.extent(1));
    exchange(exec, own_gradient_, output_gradient, phase::exchange_output_backward);
  }
  {
    auto time = timers_.phase(phase::attention_backward);
    const PackedHeads<const T> in(state.qkv, layout_);
    const PackedHeads<T> gradient(qkv_gradient_, layout_);
    attention_.backward(exec, in.q, in.k, in.v, output_heads<const T>(state.output, layout_),
                        output_heads<const T>(output_gradient, layout_), state.lse, gradient.q, gradient.k,
                        gradient.v);
  }
  if (!exchanged) return qkv_gradient_;
  exchange(exec, qkv_gradient_, packed_, phase::exchange_qkv_backward);
  return packed_;
}

template <class T>
std::size_t UlyssesAttend<T>::shared_bytes() const {
  return (packed_.size() + qkv_gradient_.size() + own_gradient_.size()) * sizeof(T);
}

template class UlyssesAttend<double>;
template class UlyssesAttend<float>;
template class UlyssesAttend<bfloat16>;

AttendStateBytes attend_state_bytes(const Plan& plan, int rank, const config::Architecture& architecture,
                                    std::size_t element_bytes, std::size_t sum_bytes) {
  const auto layout = layout_of(plan, architecture);
  const Sizes sizes(layout, plan.rows(rank));
  const Index own_output = layout.blocks == 1 ? 0 : sizes.output;
  return {static_cast<std::size_t>(sizes.packed + own_output) * element_bytes,
          static_cast<std::size_t>(sizes.output) * element_bytes +
              static_cast<std::size_t>(sizes.lse) * sum_bytes};
}

std::size_t attend_shared_bytes(const Plan& plan, int rank, const config::Architecture& architecture,
                                std::size_t element_bytes) {
  const auto layout = layout_of(plan, architecture);
  const Sizes sizes(layout, plan.rows(rank));
  const Index packed = layout.blocks == 1 ? 1 : 2;
  return static_cast<std::size_t>(packed * sizes.packed + sizes.output) * element_bytes;
}

}  // namespace minisp::parallel
