// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Host engine of attention: who works on which tile, in which memory. Not for device compilers.
//
// K/V heads are taken in rounds of as many as there are workers. A round packs its K and V, then its tiles
// run: forward one (query head, query tile) an item; backward one (K/V head, segment) an item, whose worker
// adds to dk and dv in a fixed order.
#pragma once

#include "model/attention_algorithm.hpp"
#include "model/attention_host_backward.hpp"
#include "model/attention_host_forward.hpp"

#include <algorithm>
#include <vector>

namespace minisp::model::host {

/// A tile of keys or queries of a segment.
struct TileOfSegment {
  int segment;
  int first;  // first key or query
  int count;
  int index;  // among the tiles of its segment
};

/// The lists of tiles and the memory of the rounds, as the kernels see them.
template <class T>
struct Round {
  using Real = Accumulate<T>;
  Problem<T> problem;
  const AttentionSegment* segments;
  const Index* panel_rows;  // first panel row of each segment
  Real* panels;
  Index rows_per_slot;
  Real* scratch;
  Index scratch_per_worker;
  int first_kv_head, group;
  Kokkos::Experimental::UniqueToken<Exec> worker;

  KeyPanels<Real> key_panels(int slot, int segment) const {
    return {panel(slot, 0, segment), panel(slot, 1, segment), panel(slot, 2, segment),
            panel(slot, 3, segment)};
  }
  static constexpr int panels_per_slot = 4;

 private:
  Real* panel(int slot, int which, int segment) const {
    return panels +
           ((static_cast<Index>(slot) * panels_per_slot + which) * rows_per_slot + panel_rows[segment]) *
               problem.padded_dim;
  }
};

/// Scratch of one worker for the time of one item.
template <class T>
class WorkerScratch {
 public:
  explicit WorkerScratch(const Round<T>& round) : token_(round.worker), worker_(token_.acquire()) {
    data_ = round.scratch + worker_ * round.scratch_per_worker;
  }
  ~WorkerScratch() { token_.release(worker_); }
  WorkerScratch(const WorkerScratch&) = delete;
  WorkerScratch& operator=(const WorkerScratch&) = delete;
  Accumulate<T>* data() const { return data_; }

 private:
  const Kokkos::Experimental::UniqueToken<Exec>& token_;
  int worker_;
  Accumulate<T>* data_;
};

/// Item: (slot, key tile).
template <class T>
struct PackKeys {
  Round<T> round;
  const TileOfSegment* tiles;
  Index tile_count;

  void operator()(Index item) const {
    const int slot = static_cast<int>(item / tile_count), head = round.first_kv_head + slot;
    const auto& tile = tiles[item % tile_count];
    const auto& p = round.problem;
    const auto to = round.key_panels(slot, tile.segment);
    const Index at = static_cast<Index>(tile.index) * key_tile * p.padded_dim;
    const int* rows = p.key_row + tile.first;
    pack_rows<T>(p.k, head, rows, tile.count, p.padded_dim, to.k + at);
    pack_rows<T>(p.v, head, rows, tile.count, p.padded_dim, to.v + at);
  }
};

/// Item: (slot, query tile, head of the group).
template <class T>
struct ForwardItems {
  Round<T> round;
  const TileOfSegment* tiles;
  Index tile_count;

  void operator()(Index item) const {
    const int member = static_cast<int>(item % round.group);
    const auto& tile = tiles[item / round.group % tile_count];
    const int slot = static_cast<int>(item / round.group / tile_count);
    const WorkerScratch<T> scratch(round);
    ForwardTile<T> work(round.problem, round.segments[tile.segment], round.key_panels(slot, tile.segment),
                        (round.first_kv_head + slot) * round.group + member, tile.first, scratch.data());
    attention_forward(work);
  }
};

/// Item: (slot, segment).
template <class T>
struct BackwardItems {
  Round<T> round;
  Index segment_count;

  void operator()(Index item) const {
    using Real = Accumulate<T>;
    const int slot = static_cast<int>(item / segment_count), index = static_cast<int>(item % segment_count);
    const auto& p = round.problem;
    const auto& segment = round.segments[index];
    const auto panels = round.key_panels(slot, index);
    const Index rows =
        static_cast<Index>(segment.key_end - segment.key_begin + key_tile - 1) / key_tile * key_tile;
    std::fill_n(panels.dk, rows * p.padded_dim, Real(0));
    std::fill_n(panels.dv, rows * p.padded_dim, Real(0));

    const WorkerScratch<T> scratch(round);
    for (int first = segment.query_begin; first < segment.query_end; first += query_tile)
      for (int member = 0; member < round.group; ++member) {
        BackwardTile<T> work(p, segment, panels, (round.first_kv_head + slot) * round.group + member, first,
                             scratch.data());
        attention_backward_over_keys(work);
      }
    store(p.dk, panels.dk, segment, round.first_kv_head + slot);
    store(p.dv, panels.dv, segment, round.first_kv_head + slot);
  }

 private:
  void store(const HeadRows<T>& x, const Accumulate<T>* source, const AttentionSegment& segment,
             int head) const {
    const auto& p = round.problem;
    for (int key = segment.key_begin; key < segment.key_end; ++key, source += p.padded_dim) {
      T* target = x(p.key_row[key], head);
      for (int c = 0; c < p.head_dim; ++c) target[c] = static_cast<T>(source[c]);
    }
  }
};

template <class T>
class HostAttention {
  using Real = Accumulate<T>;
  static constexpr int min_segment_keys = 512;

  /// What is held, in elements: slots K/V heads of rows_per_slot rows in each of their panels, and scratch
  /// for every worker.
  struct Sizes {
    explicit Sizes(const AttentionShape& shape) : padded_dim(TileSizes<Real>::padded(shape.head_dim)) {
      const int workers = Kokkos::Experimental::UniqueToken<Exec>().size();
      slots = std::min(workers, shape.kv_heads);
      // Every segment but the last has min_segment_keys keys, and fills its last tile with empty rows.
      rows_per_slot = shape.max_rows + key_tile * (shape.max_rows / min_segment_keys + 1);
      scratch_per_worker =
          std::max(ForwardTile<T>::scratch_size(padded_dim), BackwardTile<T>::scratch_size(padded_dim));
      panels = slots * Round<T>::panels_per_slot * rows_per_slot * padded_dim;
      scratch = workers * scratch_per_worker;
    }
    int padded_dim, slots;
    Index rows_per_slot, scratch_per_worker, panels, scratch;
  };

 public:
  explicit HostAttention(const AttentionShape& shape) : shape_(shape), sizes_(shape) {
    panels_ = Vector<Real>(uninitialized("minisp::attention::panels"), sizes_.panels);
    scratch_ = Vector<Real>(uninitialized("minisp::attention::scratch"), sizes_.scratch);
  }

  static std::size_t workspace_bytes(const AttentionShape& shape) {
    const Sizes sizes(shape);
    return static_cast<std::size_t>(sizes.panels + sizes.scratch) * sizeof(Real);
  }

  void set_map(const AttentionMap& map) {
    map_ = map;
    segments_ = split_into_segments(map, min_segment_keys);
    panel_rows_.clear();
    key_tiles_.clear();
    query_tiles_.clear();
    Index row = 0;
    for (int s = 0; s < static_cast<int>(segments_.size()); ++s) {
      const auto& segment = segments_[s];
      panel_rows_.push_back(row);
      list_tiles(key_tiles_, s, segment.key_begin, segment.key_end, key_tile);
      list_tiles(query_tiles_, s, segment.query_begin, segment.query_end, query_tile);
      row += (segment.key_end - segment.key_begin + key_tile - 1) / key_tile * key_tile;
    }
  }

  void forward(const Exec& exec, HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v, HeadRows<T> o,
               const Matrix<Accumulate<T>>& lse) {
    auto p = problem();
    p.q = q, p.k = k, p.v = v, p.out = o;
    p.lse = lse.data();
    p.lse_stride = row_stride(lse);
    for (int head = 0; head < shape_.kv_heads; head += sizes_.slots) {
      const auto round = make_round(p, head);
      const Index heads = std::min(sizes_.slots, shape_.kv_heads - head);
      const Index key_tiles = key_tiles_.size(), query_tiles = query_tiles_.size();
      Kokkos::parallel_for("minisp::attention::pack", policy(exec, heads * key_tiles),
                           PackKeys<T>{round, key_tiles_.data(), key_tiles});
      Kokkos::parallel_for("minisp::attention::forward", policy(exec, heads * query_tiles * shape_.group()),
                           ForwardItems<T>{round, query_tiles_.data(), query_tiles});
    }
  }

  void backward(const Exec& exec, HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v,
                HeadRows<const T> o, HeadRows<const T> dout, const Matrix<const Accumulate<T>>& lse,
                HeadRows<T> dq, HeadRows<T> dk, HeadRows<T> dv) {
    auto p = problem();
    p.q = q, p.k = k, p.v = v, p.o = o, p.dout = dout, p.dq = dq, p.dk = dk, p.dv = dv;
    p.lse_given = lse.data();
    p.lse_stride = row_stride(lse);
    for (int head = 0; head < shape_.kv_heads; head += sizes_.slots) {
      const auto round = make_round(p, head);
      const Index heads = std::min(sizes_.slots, shape_.kv_heads - head);
      const Index key_tiles = key_tiles_.size(), segments = segments_.size();
      Kokkos::parallel_for("minisp::attention::pack", policy(exec, heads * key_tiles),
                           PackKeys<T>{round, key_tiles_.data(), key_tiles});
      Kokkos::parallel_for("minisp::attention::backward", policy(exec, heads * segments),
                           BackwardItems<T>{round, segments});
    }
  }

 private:
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::Schedule<Kokkos::Dynamic>, Kokkos::IndexType<Index>>;

  // Items are large and uneven: one at a time to whoever is free.
  static Policy policy(const Exec& exec, Index items) { return Policy(exec, 0, items, Kokkos::ChunkSize(1)); }

  static void list_tiles(std::vector<TileOfSegment>& tiles, int segment, int begin, int end, int size) {
    for (int first = begin, index = 0; first < end; first += size, ++index)
      tiles.push_back({segment, first, std::min(size, end - first), index});
  }

  Problem<T> problem() const {
    Problem<T> p;
    p.query_row = map_.query_row.data();
    p.key_row = map_.key_row.data();
    p.key_begin = map_.key_begin.data();
    p.key_end = map_.key_end.data();
    p.head_dim = shape_.head_dim;
    p.padded_dim = sizes_.padded_dim;
    return p;
  }

  Round<T> make_round(const Problem<T>& p, int first_kv_head) const {
    return {p,
            segments_.data(),
            panel_rows_.data(),
            panels_.data(),
            sizes_.rows_per_slot,
            scratch_.data(),
            sizes_.scratch_per_worker,
            first_kv_head,
            shape_.group(),
            worker_};
  }

  AttentionShape shape_;
  Sizes sizes_;
  AttentionMap map_;
  std::vector<AttentionSegment> segments_;
  std::vector<Index> panel_rows_;
  std::vector<TileOfSegment> key_tiles_, query_tiles_;
  Vector<Real> panels_, scratch_;
  Kokkos::Experimental::UniqueToken<Exec> worker_;
};

}  // namespace minisp::model::host
