// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Attention problems for the tests, a runner for either engine, and the definition written out in fp64.
#pragma once

#include "model/attention.hpp"
#include "model/attention_device.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace minisp::test {

using model::AttentionMap;
using model::HeadRows;

struct Heads {
  int q = 1, kv = 1, dim = 8;
};

/// Rows (row, head, dim) in fp64, whatever the engine computes in.
struct Values {
  std::vector<double> q, k, v, dout, o, dq, dk, dv;
  std::vector<double> lse;  // (heads, queries)
};

struct AttentionCase {
  std::string name;
  AttentionMap map;
  int rows = 0;
  Heads heads;
};

inline AttentionMap identity_rows(int queries, int keys) {
  AttentionMap map;
  map.query_row.resize(queries);
  map.key_row.resize(keys);
  std::iota(map.query_row.begin(), map.query_row.end(), 0);
  std::iota(map.key_row.begin(), map.key_row.end(), 0);
  return map;
}

/// Documents of the given lengths, one behind the other, each causal in itself.
inline AttentionMap documents(const std::vector<int>& lengths) {
  const int n = std::accumulate(lengths.begin(), lengths.end(), 0);
  AttentionMap map = identity_rows(n, n);
  int start = 0;
  for (int length : lengths) {
    for (int i = 0; i < length; ++i) {
      map.key_begin.push_back(start);
      map.key_end.push_back(start + i + 1);
    }
    start += length;
  }
  return map;
}

/// Bounds drawn at random and sorted: intervals of every length, empty ones among them.
inline AttentionMap random_map(int queries, int keys, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> bound(0, keys);
  AttentionMap map = identity_rows(queries, keys);
  for (int i = 0; i < queries; ++i) {
    map.key_begin.push_back(bound(random));
    map.key_end.push_back(bound(random));
  }
  std::sort(map.key_begin.begin(), map.key_begin.end());
  std::sort(map.key_end.begin(), map.key_end.end());
  return map;
}

/// Queries and keys keep their order and lie in rows of another one.
inline AttentionMap shuffled(AttentionMap map, unsigned seed) {
  std::mt19937 random(seed);
  std::shuffle(map.query_row.begin(), map.query_row.end(), random);
  std::shuffle(map.key_row.begin(), map.key_row.end(), random);
  return map;
}

/// Random inputs; `round` is the type that they must be exact in.
template <class T>
Values random_values(const AttentionCase& c, unsigned seed, double amplitude = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, amplitude);
  Values x;
  const auto draw = [&](std::vector<double>& to, int heads) {
    to.resize(static_cast<std::size_t>(c.rows) * heads * c.heads.dim);
    for (auto& value : to) value = static_cast<double>(static_cast<T>(normal(random)));
  };
  draw(x.q, c.heads.q);
  draw(x.k, c.heads.kv);
  draw(x.v, c.heads.kv);
  draw(x.dout, c.heads.q);
  return x;
}

/// A (rows, heads * dim) matrix inside wider rows, so that a row stride that is not the width is exercised.
template <class T>
class DeviceRows {
 public:
  DeviceRows(int rows, int heads, int dim, double fill)
      : heads_(heads), dim_(dim), data_("test::rows", rows, heads * dim + 5) {
    Kokkos::deep_copy(data_, static_cast<T>(fill));
  }
  DeviceRows(const std::vector<double>& from, int rows, int heads, int dim)
      : DeviceRows(rows, heads, dim, 0) {
    const auto host = Kokkos::create_mirror_view(data_);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < heads * dim; ++c) host(r, c) = static_cast<T>(from[r * heads * dim + c]);
    Kokkos::deep_copy(data_, host);
  }
  std::vector<double> values() const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), data_);
    std::vector<double> to;
    for (std::size_t r = 0; r < host.extent(0); ++r)
      for (int c = 0; c < heads_ * dim_; ++c) to.push_back(static_cast<double>(host(r, c)));
    return to;
  }
  HeadRows<T> rows() const { return {data_.data(), static_cast<Index>(data_.stride(0)), heads_, dim_}; }
  HeadRows<const T> input() const {
    return {data_.data(), static_cast<Index>(data_.stride(0)), heads_, dim_};
  }

 private:
  int heads_, dim_;
  Matrix<T> data_;
};

/// Forward and backward on an engine: Attention<T> or DeviceAttention<T>. Rows that no map entry names keep
/// `untouched`.
inline constexpr double untouched = 1024;  // the same in every type
template <class T, class Engine>
void run(Engine& engine, const AttentionCase& c, Values& x) {
  const auto [hq, hkv, dim] = c.heads;
  const Exec exec;
  const DeviceRows<T> q(x.q, c.rows, hq, dim), k(x.k, c.rows, hkv, dim), v(x.v, c.rows, hkv, dim),
      dout(x.dout, c.rows, hq, dim);
  const DeviceRows<T> o(c.rows, hq, dim, untouched), dq(c.rows, hq, dim, untouched),
      dk(c.rows, hkv, dim, untouched), dv(c.rows, hkv, dim, untouched);
  const Matrix<Accumulate<T>> lse("test::lse", hq, c.map.query_row.size());
  engine.set_map(c.map);
  engine.forward(exec, q.input(), k.input(), v.input(), o.rows(), lse);
  engine.backward(exec, q.input(), k.input(), v.input(), o.input(), dout.input(), lse, dq.rows(), dk.rows(),
                  dv.rows());
  exec.fence();
  x.o = o.values(), x.dq = dq.values(), x.dk = dk.values(), x.dv = dv.values();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), lse);
  x.lse.clear();
  for (std::size_t h = 0; h < host.extent(0); ++h)
    for (std::size_t i = 0; i < host.extent(1); ++i) x.lse.push_back(host(h, i));
}

template <class T>
void run_attention(const AttentionCase& c, Values& x) {
  model::Attention<T> engine(c.rows, c.heads.q, c.heads.kv, c.heads.dim);
  run<T>(engine, c, x);
}
template <class T>
void run_device_engine(const AttentionCase& c, Values& x) {
  model::DeviceAttention<T> engine(model::AttentionShape{c.rows, c.heads.q, c.heads.kv, c.heads.dim});
  run<T>(engine, c, x);
}

/// softmax(q k^T / sqrt(d)) v and its derivatives, as the textbook has them.
void run_reference(const AttentionCase& c, Values& x);

/// |a - b| / |b| in the Euclidean norm; |a| where b is 0.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace minisp::test
