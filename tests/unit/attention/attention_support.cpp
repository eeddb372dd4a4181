// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "attention_support.hpp"

namespace minisp::test {

namespace {

/// One query of one head: fills o and lse, adds to dk and dv, sets dq.
void reference_query(const AttentionCase& c, Values& x, int head, int i) {
  const auto [hq, hkv, dim] = c.heads;
  const int kv = head / (hq / hkv), begin = c.map.key_begin[i], end = c.map.key_end[i];
  const auto at = [d = dim](int row, int heads, int h) {
    return (static_cast<std::size_t>(row) * heads + h) * d;
  };
  const std::size_t query = at(c.map.query_row[i], hq, head);
  const auto key = [&](int j) { return at(c.map.key_row[j], hkv, kv); };
  const auto dot = [d = dim](const double* a, const double* b) {
    return std::inner_product(a, a + d, b, 0.0);
  };
  for (int e = 0; e < dim; ++e) x.o[query + e] = x.dq[query + e] = 0;
  double& lse = x.lse[static_cast<std::size_t>(head) * c.map.query_row.size() + i];
  lse = -std::numeric_limits<double>::infinity();
  if (begin >= end) return;

  const double scale = 1 / std::sqrt(double(dim));
  std::vector<double> p(end - begin);
  for (int j = begin; j < end; ++j) p[j - begin] = scale * dot(&x.q[query], &x.k[key(j)]);
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (auto& value : p) sum += value = std::exp(value - largest);
  lse = largest + std::log(sum);
  for (auto& value : p) value /= sum;
  for (int j = begin; j < end; ++j)
    for (int e = 0; e < dim; ++e) x.o[query + e] += p[j - begin] * x.v[key(j) + e];
  const double delta = dot(&x.dout[query], &x.o[query]);
  for (int j = begin; j < end; ++j) {
    const double ds = p[j - begin] * (dot(&x.dout[query], &x.v[key(j)]) - delta) * scale;
    for (int e = 0; e < dim; ++e) {
      x.dv[key(j) + e] += p[j - begin] * x.dout[query + e];
      x.dk[key(j) + e] += ds * x.q[query + e];
      x.dq[query + e] += ds * x.k[key(j) + e];
    }
  }
}

}  // namespace

void run_reference(const AttentionCase& c, Values& x) {
  x.o.assign(x.q.size(), untouched);
  x.dq.assign(x.q.size(), untouched);
  x.dk.assign(x.k.size(), untouched);
  x.dv.assign(x.k.size(), untouched);
  x.lse.resize(static_cast<std::size_t>(c.heads.q) * c.map.query_row.size());
  const int width = c.heads.kv * c.heads.dim;
  for (int row : c.map.key_row)
    for (int e = 0; e < width; ++e) x.dk[row * width + e] = x.dv[row * width + e] = 0;
  for (int head = 0; head < c.heads.q; ++head)
    for (int i = 0; i < static_cast<int>(c.map.query_row.size()); ++i) reference_query(c, x, head, i);
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (a.at(i) == b[i]) continue;  // also where both are -inf
    difference += (a[i] - b[i]) * (a[i] - b[i]);
  }
  for (double value : b) norm += std::isinf(value) ? 0 : value * value;
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

}  // namespace minisp::test
