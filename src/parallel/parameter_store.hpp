// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Where weights, gradients and optimizer states live: resident on every rank, or sharded over a group of P
// ranks (Rajbhandari et al., ZeRO, arXiv:1910.02054; Zhang et al., MiCS, arXiv:2205.00119).
//
// A unit of Psi elements, P ranks, e bytes an element on its way (weights and gradients may differ):
//   none   all resident                          2 e Psi (N-1)/N a step: all-reduce
//   zero1  states 1/N                            2 e Psi (N-1)/N a step: reduce-scatter, all-gather
//   zero2  states, gradients 1/N                 e Psi (N-1)/N a micro-step, as much a step
//   zero3  states, gradients, weights 1/N        3 e Psi (N-1)/N a micro-step: gather, gather, scatter
//   mics   the same 1/p                          3 e Psi (p-1)/p a micro-step, 2 e (Psi/p) (r-1)/r a step
// with r = N/p replicas. Bytes of weights, gradients and states in mixed precision: 16 Psi, 4 Psi + 12 Psi/N,
// 2 Psi + 14 Psi/N, 16 Psi/N, 16 Psi/p (arXiv:1910.02054, section 3). A unit's elements are cut into P chunks
// of ceil(Psi / P); chunk i is rank i's.
#pragma once

#include "comm/all_gather.hpp"
#include "config/config.hpp"
#include "model/parameter_access.hpp"
#include "parallel/mesh.hpp"
#include "util/phase_timers.hpp"

#include <vector>

namespace minisp::parallel {

/// Names of the phases, in the timers and in the ledger.
namespace phase {
inline constexpr const char* gather_weights = "gather weights";
inline constexpr const char* reduce_gradients = "reduce gradients";
inline constexpr const char* gradient_norm = "gradient norm";
}  // namespace phase

/// How a ParameterStore behaves beside what the plan says.
struct StoreOptions {
  bool prefetch = true;         ///< gather the next unit while this one computes
  bool wide_gradients = false;  ///< gradients in Accumulate<T>, not in T
};

/// Bytes of a ParameterStore; what holds one unit at a time is workspace.
struct StoreMemory {
  Index weights = 0, master = 0, gradients = 0, workspace = 0, communication = 0;
  Index state_elements = 0;  ///< of an optimizer state on this rank
};

/// A buffer of gradients: in T, or in what T computes in. One of the two is empty (`narrow` where they are
/// the same type).
template <class T>
struct GradientBuffer {
  Vector<T> narrow;
  Vector<Accumulate<T>> wide;

  bool is_narrow() const { return narrow.data() != nullptr; }
  /// body(the one that is there).
  template <class Body>
  decltype(auto) visit(const Body& body) const {
    if constexpr (is_mixed<T>)
      if (is_narrow()) return body(narrow);
    return body(wide);
  }
};

/// In mixed precision the layers add their gradients up in Accumulate<T>, a unit at a time; what is kept of
/// a unit between micro-steps, and sent, is a GradientBuffer. Weights in T are rounded from the master
/// weights, which this rank keeps in Accumulate<T> for the part that it updates; in one precision they are
/// the weights.
template <class T>
class ParameterStore : public model::ParameterAccess<T> {
 public:
  using Sum = Accumulate<T>;

  /// Allocates. What is passed by reference outlives the store.
  ParameterStore(const Mesh& mesh, const config::Architecture& architecture,
                 const model::ParameterLayout& layout, const StoreOptions& options, PhaseTimers& timers);

  const model::ModelParameters<T>& weights() const override { return weight_views_; }
  const model::ModelParameters<Sum>& gradients() const override { return gradient_views_; }
  void acquire(const Exec& exec, int unit) override;
  void release(int unit) override;
  void prefetch(const Exec& exec, int unit) override;
  void retire_gradient(const Exec& exec, int unit) override;

  /// Gradients of the step to come start at zero.
  void zero_gradients(const Exec& exec);
  /// After the last micro-step: what this rank updates holds the gradient summed over all ranks.
  void finish_gradients(const Exec& exec);
  /// 2-norm of the whole gradient, the same on every rank; after finish_gradients().
  double gradient_norm(const Exec& exec);

  /// What this rank updates: `elements` of the flat buffer from `first` on, whose states begin at `state`.
  struct Piece {
    Index first = 0, state = 0;
    Vector<T> weights;
    Vector<Sum> master;  ///< the same memory as `weights` where T is Sum
    GradientBuffer<T> gradients;
  };
  /// One piece a unit that holds an element.
  std::vector<Piece> pieces() const;
  /// Elements of optimizer state: the sum of the pieces.
  Index state_elements() const;
  /// After the pieces' master weights have been set: the weights are what they round to.
  void round_weights(const Exec& exec);
  /// After the pieces' weights have changed: every rank that holds them gets them.
  void publish_weights(const Exec& exec);

  /// The whole flat buffer (layout.size()), in the layout's order; collective. Without sharding no copy,
  /// unless gradients are to be widened.
  Vector<T> full_weights(const Exec& exec) const;
  Vector<Sum> full_gradients(const Exec& exec) const;

  static StoreMemory memory(const config::Architecture& architecture, const Plan& plan,
                            const StoreOptions& options);

 private:
  struct Unit {
    Index offset = 0, size = 0;  // in the flat buffer
    Index chunk = 0;             // elements of a shard
    Index full = 0, shard = 0;   // where it begins in buffers of whole units, and of shards
    int slot = 0;                // buffer that it is gathered into
  };
  Vector<T> whole_weights(int unit) const;
  Vector<Sum> whole_gradient(int unit) const;
  Vector<T> weight_shard(int unit) const;
  Index gradient_begin(int unit) const;
  bool gathers_gradients() const { return !gradient_slots_.empty(); }
  template <class E, class Get>
  Vector<E> gather_flat(const Exec& exec, Get get) const;

  const Mesh& mesh_;
  PhaseTimers& timers_;
  config::Sharding sharding_;
  StoreOptions options_;
  std::vector<Unit> units_;
  Index flat_size_ = 0;
  Vector<T> weights_;   // whole units one after the other, or shards
  Vector<Sum> master_;  // mixed precision: shards
  GradientBuffer<T> gradients_;
  std::vector<Vector<T>> weight_slots_;      // zero3, mics
  std::vector<Vector<Sum>> gradient_slots_;  // what layers add to, where it is not what is kept
  Vector<T> narrowed_;                       // a unit's gradient on its way, where it is sent in T
  Vector<double> norm_partial_sums_;
  std::vector<comm::Request> pending_;  // by slot
  std::vector<int> resident_;           // by slot: the unit whose weights are there or on their way, -1: none
  model::ModelParameters<T> weight_views_;
  model::ModelParameters<Sum> gradient_views_;
};

}  // namespace minisp::parallel
