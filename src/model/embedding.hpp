// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Token embedding, with learned positions where the model has them.
//   out(r, :)  = table(token(r), :) [+ position_table(position(r), :)]
// Gradients: dtable += and dposition_table += (a tied head adds its part to the same table).
#pragma once

#include "math/precision.hpp"
#include "util/views.hpp"

namespace minisp::model {

/// The rows of a batch grouped by an integer they carry (token or position), so that a scatter-add has one
/// team for each distinct value and a fixed order of summation: bit-reproducible without atomics.
class TokenIndex {
 public:
  TokenIndex() = default;
  /// Allocates for up to max_rows rows.
  explicit TokenIndex(Index max_rows);

  /// Groups the rows of a batch. Values are not negative. Host work O(rows log rows).
  void set(const HostVector<const int>& values);

  /// Rows of the batch.
  Index rows() const { return rows_; }
  /// Number of distinct values.
  Index groups() const { return groups_; }
  /// Group g holds value values()(g); its rows are row_order()(offsets()(g)) ..
  /// row_order()(offsets()(g+1)-1), ascending. Device views.
  const Vector<int>& values() const { return values_; }
  const Vector<int>& offsets() const { return offsets_; }
  const Vector<int>& row_order() const { return row_order_; }

 private:
  Index rows_ = 0, groups_ = 0;
  Vector<int> values_, offsets_, row_order_;                 // (max_rows), (max_rows + 1), (max_rows)
  HostVector<int> host_values_, host_offsets_, host_order_;  // the same on the host
};

/// out (rows, hidden) =; tokens (rows) within [0, vocabulary); table (vocabulary, hidden).
template <class T>
void embedding_forward(const Exec& exec, const Vector<const int>& tokens, const Matrix<const T>& table,
                       const Matrix<T>& out);

/// The same with learned positions; position_table (max_positions, hidden), positions (rows).
template <class T>
void embedding_forward(const Exec& exec, const Vector<const int>& tokens, const Matrix<const T>& table,
                       const Vector<const int>& positions, const Matrix<const T>& position_table,
                       const Matrix<T>& out);

/// dtable (values, hidden) +=: the sum of dout (rows, hidden) over the rows of each value of `index`. Serves
/// the token table and, with an index of positions, the position table.
template <class T>
void embedding_backward(const Exec& exec, const TokenIndex& index, const Matrix<const T>& dout,
                        const Matrix<Accumulate<T>>& dtable);

}  // namespace minisp::model
