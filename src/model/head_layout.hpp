// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// How the heads of q, k and v lie in memory: in blocks of heads, one block for each rank that an exchange
// sends to, or one block in all where nothing is exchanged. A layout only: nothing here knows of ranks.
#pragma once

#include "util/views.hpp"

namespace minisp::model {

/// Block b holds query heads [b*q_heads, (b+1)*q_heads) and kv_heads key/value heads from first_kv(b) on.
/// Where the model has fewer K/V heads than there are blocks, each block holds one and several blocks hold
/// the same (their gradients are summed).
///
/// Packed buffer: (blocks, rows, (q_heads + 2*kv_heads) * head_dim), a row being q heads, k heads, v heads.
/// With blocks = 1 that is the output of the fused q, k, v projection itself: (rows, (h + 2 kv) * d).
struct HeadLayout {
  int blocks = 1;
  int total_q_heads = 0;
  int total_kv_heads = 0;
  int head_dim = 0;

  KOKKOS_INLINE_FUNCTION int q_heads() const { return total_q_heads / blocks; }
  KOKKOS_INLINE_FUNCTION int kv_heads() const {
    return total_kv_heads >= blocks ? total_kv_heads / blocks : 1;
  }
  /// First K/V head of block b: floor(b * kv / blocks).
  KOKKOS_INLINE_FUNCTION int first_kv(int b) const {
    return static_cast<int>(static_cast<Index>(b) * total_kv_heads / blocks);
  }
  /// Columns of a packed row: (q_heads + 2*kv_heads) * head_dim.
  KOKKOS_INLINE_FUNCTION Index packed_width() const {
    return static_cast<Index>(q_heads() + 2 * kv_heads()) * head_dim;
  }
  /// Columns of the fused projection: (h + 2 kv) * d.
  KOKKOS_INLINE_FUNCTION Index fused_width() const {
    return static_cast<Index>(total_q_heads + 2 * total_kv_heads) * head_dim;
  }
  /// heads divide by blocks, and K/V heads divide by blocks or blocks by K/V heads.
  bool fits() const {
    return total_q_heads % blocks == 0 && (total_kv_heads % blocks == 0 || blocks % total_kv_heads == 0);
  }
};

}  // namespace minisp::model
