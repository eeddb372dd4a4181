// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Device engine of attention: one team a (head, query tile) forward and for dq, one team a (K/V head, key
// tile) for dk and dv. The second sweep takes two products again, which costs less than giving up either
// parallelism or reproducibility.
#pragma once

#include "model/attention_algorithm.hpp"
#include "model/attention_device_tile.hpp"

#include <algorithm>
#include <vector>

namespace minisp::model {

namespace device {

enum class Sweep { forward, query_gradient, key_gradient };

template <class T, Sweep Which>
struct TileKernel {
  using Real = Accumulate<T>;
  Problem<T> problem;
  int scratch_level, tiles;  // tiles of queries, of keys in the third sweep
  std::size_t scratch_bytes;

  KOKKOS_INLINE_FUNCTION void operator()(const TeamMember& member) const {
    const int head = static_cast<int>(member.league_rank()) / tiles;
    const int index = static_cast<int>(member.league_rank()) % tiles;
    auto* scratch = static_cast<Real*>(member.team_scratch(scratch_level).get_shmem(scratch_bytes));
    const bool heads_of_keys = Which == Sweep::key_gradient;
    Tile<T> tile(problem, member, scratch, heads_of_keys ? head * problem.group : head,
                 heads_of_keys ? head : head / problem.group, index);
    if constexpr (Which == Sweep::forward) attention_forward(tile);
    if constexpr (Which == Sweep::query_gradient) attention_backward_over_keys(tile);
    if constexpr (Which == Sweep::key_gradient) attention_backward_over_queries(tile);
  }
};

}  // namespace device

template <class T>
class DeviceAttention {
  using Real = Accumulate<T>;

 public:
  explicit DeviceAttention(const AttentionShape& shape)
      : shape_(shape),
        tile_(choose_tile(shape.head_dim)),
        scratch_level_(fits(tile_, shape.head_dim) ? 0 : 1) {
    for (auto* list : {&query_row_, &key_row_, &key_begin_, &key_end_})
      *list = Vector<int>(uninitialized("minisp::attention::map"), shape.max_rows);
    for (auto* list : {&query_begin_, &query_end_})
      *list = Vector<int>(uninitialized("minisp::attention::map"), tiles_of(shape.max_rows, tile_));
  }

  static std::size_t workspace_bytes(const AttentionShape& shape) {
    return static_cast<std::size_t>(4 * shape.max_rows +
                                    2 * tiles_of(shape.max_rows, choose_tile(shape.head_dim))) *
           sizeof(int);
  }

  void set_map(const AttentionMap& map) {
    queries_ = static_cast<int>(map.query_row.size());
    keys_ = static_cast<int>(map.key_row.size());
    std::vector<int> begin, end;
    for (int key = 0; key < keys_; key += tile_) {
      const int next = std::min(keys_, key + tile_);
      begin.push_back(static_cast<int>(std::upper_bound(map.key_end.begin(), map.key_end.end(), key) -
                                       map.key_end.begin()));
      end.push_back(static_cast<int>(std::lower_bound(map.key_begin.begin(), map.key_begin.end(), next) -
                                     map.key_begin.begin()));
    }
    copy(map.query_row, query_row_);
    copy(map.key_row, key_row_);
    copy(map.key_begin, key_begin_);
    copy(map.key_end, key_end_);
    copy(begin, query_begin_);
    copy(end, query_end_);
  }

  void forward(const Exec& exec, HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v, HeadRows<T> o,
               const Matrix<Accumulate<T>>& lse) {
    auto p = problem();
    p.q = q, p.k = k, p.v = v, p.out = o, p.lse = lse;
    launch<device::Sweep::forward>("minisp::attention::forward", exec, p, shape_.heads,
                                   tiles_of(queries_, tile_));
  }

  void backward(const Exec& exec, HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v,
                HeadRows<const T> o, HeadRows<const T> dout, const Matrix<const Accumulate<T>>& lse,
                HeadRows<T> dq, HeadRows<T> dk, HeadRows<T> dv) {
    auto p = problem();
    p.q = q, p.k = k, p.v = v, p.o = o, p.dout = dout, p.dq = dq, p.dk = dk, p.dv = dv, p.lse_given = lse;
    launch<device::Sweep::query_gradient>("minisp::attention::backward_queries", exec, p, shape_.heads,
                                          tiles_of(queries_, tile_));
    launch<device::Sweep::key_gradient>("minisp::attention::backward_keys", exec, p, shape_.kv_heads,
                                        tiles_of(keys_, tile_));
  }

 private:
  template <device::Sweep Which>
  void launch(const char* label, const Exec& exec, const device::Problem<T>& p, Index heads,
              Index tiles) const {
    if (tiles == 0) return;
    const std::size_t bytes = scratch_bytes(tile_, shape_.head_dim);
    TeamPolicy policy(exec, heads * tiles, Kokkos::AUTO, std::min(32, TeamPolicy::vector_length_max()));
    policy.set_scratch_size(scratch_level_, Kokkos::PerTeam(reserved_bytes(tile_, shape_.head_dim)));
    Kokkos::parallel_for(label, policy,
                         device::TileKernel<T, Which>{p, scratch_level_, static_cast<int>(tiles), bytes});
  }

  static std::size_t scratch_bytes(int tile, int head_dim) {
    return static_cast<std::size_t>(device::Tile<T>::scratch_size(tile, head_dim)) * sizeof(Real);
  }
  // get_shmem may move the start up to the next aligned address.
  static std::size_t reserved_bytes(int tile, int head_dim) { return scratch_bytes(tile, head_dim) + 64; }
  static bool fits(int tile, int head_dim) {
    return static_cast<int>(reserved_bytes(tile, head_dim)) <= TeamPolicy::scratch_size_max(0);
  }

  /// The largest tile whose rows fit into the fast scratch; 16 in the slow one where not even four do.
  static int choose_tile(int head_dim) {
    for (int tile = 64; tile >= 4; tile /= 2)
      if (fits(tile, head_dim)) return tile;
    return 16;
  }

  static Index tiles_of(Index rows, int tile) { return (rows + tile - 1) / tile; }

  static void copy(const std::vector<int>& from, const Vector<int>& to) {
    const auto part = Kokkos::make_pair(std::size_t(0), from.size());
    Kokkos::deep_copy(Kokkos::subview(to, part),
                      Kokkos::View<const int*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
                          from.data(), from.size()));
  }

  device::Problem<T> problem() const {
    device::Problem<T> p;
    p.query_row = query_row_;
    p.key_row = key_row_;
    p.key_begin = key_begin_;
    p.key_end = key_end_;
    p.query_begin = query_begin_;
    p.query_end = query_end_;
    p.queries = queries_;
    p.keys = keys_;
    p.head_dim = shape_.head_dim;
    p.group = shape_.group();
    p.tile = tile_;
    return p;
  }

  AttentionShape shape_;
  int tile_, scratch_level_, queries_ = 0, keys_ = 0;
  Vector<int> query_row_, key_row_, key_begin_, key_end_, query_begin_, query_end_;
};

}  // namespace minisp::model
