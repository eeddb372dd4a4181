// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Attention whose tokens are spread over ranks, by all-to-all: every rank of a group gets all tokens of the
// group for its share of the heads, and gives the results back. Ulysses (arXiv:2309.14509) with the group of
// all ranks, BASP (arXiv:2609.03151) with the N/B ranks of one sequence, and with one rank a group no
// exchange at all: single rank and data parallel.
//
// K ranks, rows = T tokens a rank. A rank's send block b holds its tokens for the heads of rank b, and block
// i of what it receives the tokens of rank i for its own heads: (source rank, row there). Attention reads q,
// k and v there and writes o there (AttentionMap knows where each token of a sequence lies), so that nothing
// is unpacked, and the way back is the same all-to-all of blocks.
#pragma once

#include "config/architecture.hpp"
#include "model/attend.hpp"
#include "parallel/mesh.hpp"
#include "util/phase_timers.hpp"

#include <vector>

namespace minisp::parallel {

/// Names of the phases, in the timers and in the ledger.
namespace phase {
inline constexpr const char* exchange_qkv_forward = "exchange_qkv forward";
inline constexpr const char* attention_forward = "attention forward";
inline constexpr const char* exchange_output_forward = "exchange_output forward";
inline constexpr const char* exchange_output_backward = "exchange_output backward";
inline constexpr const char* attention_backward = "attention backward";
inline constexpr const char* exchange_qkv_backward = "exchange_qkv backward";
}  // namespace phase

template <class T>
class UlyssesAttend : public model::Attend<T> {
 public:
  /// `mesh` and `timers` outlive this. Allocates the buffers that all layers share.
  UlyssesAttend(const Mesh& mesh, const config::Architecture& architecture, PhaseTimers& timers);

  /// Who sees whom in the batch to come: starts[s][p] is the first position that position p of the group's
  /// sequence s sees (LocalBatch::document_starts). Host work O(tokens of the group). Not collective.
  void set_documents(const std::vector<std::vector<int>>& starts);

  model::HeadLayout layout() const override { return layout_; }
  model::AttendState<T> allocate() const override;
  Matrix<T> packed_qkv(model::AttendState<T>& state) override;
  void forward(const Exec& exec, model::AttendState<T>& state) override;
  void recompute(const Exec& exec, model::AttendState<T>& state) override;
  Matrix<T> own_output_gradient() override { return own_gradient_; }
  Matrix<const T> backward(const Exec& exec, model::AttendState<T>& state) override;

  /// Query-key pairs of the group's sequences that the mask lets through, for one head.
  Index visible_pairs() const { return attention_.visible_pairs(); }
  /// Query heads that this rank computes attention for.
  int heads() const { return layout_.q_heads(); }
  /// Bytes of the buffers that all layers share, without and of the attention's own workspace.
  std::size_t shared_bytes() const;
  std::size_t attention_workspace_bytes() const { return attention_.workspace_bytes(); }

 private:
  void exchange(const Exec& exec, const Matrix<const T>& send, const Matrix<T>& receive, const char* name);

  const Mesh& mesh_;
  PhaseTimers& timers_;
  model::HeadLayout layout_;
  Index rows_ = 0;                        // tokens of this rank
  std::vector<std::vector<int>> row_of_;  // (sequence, position): its attention row
  model::AttentionMap map_;
  model::Attention<T> attention_;
  Matrix<T> packed_;        // (K rows, packed width): sent in forward, received in backward; empty with K = 1
  Matrix<T> qkv_gradient_;  // (K rows, packed width), attention rows
  Matrix<T> own_gradient_;  // (K rows, q_heads d), as own_output
};

/// Bytes of an AttendState of a rank of this plan, stored in elements of `element_bytes` and log-sum-exps of
/// `sum_bytes`: what recompute() needs, and what it makes.
struct AttendStateBytes {
  std::size_t kept = 0, made = 0;
};
AttendStateBytes attend_state_bytes(const Plan& plan, int rank, const config::Architecture& architecture,
                                    std::size_t element_bytes, std::size_t sum_bytes);
/// Bytes of the shared buffers of a UlyssesAttend (attention's own workspace apart).
std::size_t attend_shared_bytes(const Plan& plan, int rank, const config::Architecture& architecture,
                                std::size_t element_bytes);

}  // namespace minisp::parallel
