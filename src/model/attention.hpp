// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Grouped-query attention under a mask that lets every query see one interval of keys: causal attention,
// packed documents, and later the chunks of ring attention are all of this kind.
//
// Tiled, online softmax, log-sum-exp kept, probabilities recomputed in the backward pass: memory O(S).
// Milakov & Gimelshein, arXiv:1805.02867; FlashAttention-2, arXiv:2307.08691, algorithms 1 and 2.
#pragma once

#include "math/precision.hpp"
#include "util/views.hpp"

#include <memory>
#include <vector>

namespace minisp::model {

/// Heads of some kind inside a row-major buffer: head h of row r begins at data + r*row_stride + h*head_dim.
/// Does not own; the buffer outlives the call.
template <class T>
struct HeadRows {
  T* data = nullptr;
  Index row_stride = 0;
  int heads = 0;
  int head_dim = 0;

  KOKKOS_INLINE_FUNCTION T* operator()(Index row, int head) const {
    return data + row * row_stride + static_cast<Index>(head) * head_dim;
  }
};

/// Who sees whom, and where they lie. Query i (0 <= i < queries) lies in buffer row query_row[i] and sees the
/// keys j with key_begin[i] <= j < key_end[i] (possibly none: output 0, log-sum-exp -inf). Both bounds never
/// fall as i grows. Key j lies in buffer row key_row[j]. Rows may be in any order, so that what an
/// all-to-all delivered is read where it lies.
struct AttentionMap {
  std::vector<int> query_row, key_row;
  std::vector<int> key_begin, key_end;
};

/// Prepared once for a map (a batch's documents): device copies of the map and the list of tiles that the
/// mask leaves, and workspaces. Reusable for every layer of the step.
template <class T>
class Attention {
 public:
  Attention();
  ~Attention();
  Attention(Attention&&) noexcept;
  Attention& operator=(Attention&&) noexcept;

  /// Sizes for up to max_rows queries and keys; heads are those of q and k on this rank.
  /// heads is a multiple of kv_heads: query head h reads K/V head h / (heads / kv_heads).
  Attention(Index max_rows, int heads, int kv_heads, int head_dim);

  /// Takes the map of the batch to come. Host work O(rows).
  void set_map(const AttentionMap& map);

  /// o(row, h, :) = sum_j softmax_j(q . k_j / sqrt(d)) v_j for every query; lse (heads, queries) is written,
  /// in query order i, natural logarithm.
  void forward(const Exec& exec, HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v, HeadRows<T> o,
               const Matrix<Accumulate<T>>& lse);

  /// dq, dk, dv are overwritten (rows that no map entry names are left alone); each K/V head receives the sum
  /// over its query heads. o and lse are those of the forward call. Bit-reproducible: no atomics.
  void backward(const Exec& exec, HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v,
                HeadRows<const T> o, HeadRows<const T> dout, const Matrix<const Accumulate<T>>& lse,
                HeadRows<T> dq, HeadRows<T> dk, HeadRows<T> dv);

  /// Query-key pairs that the mask lets through, summed over queries (for one head): the work counted once.
  Index visible_pairs() const;
  /// Bytes of workspace that this object holds, and those that one of these sizes would.
  std::size_t workspace_bytes() const;
  static std::size_t workspace_bytes(Index max_rows, int heads, int kv_heads, int head_dim);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> impl_;
};

}  // namespace minisp::model
