// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/scalars.hpp"

#include "comm/measure.hpp"

#include <algorithm>

namespace minisp::comm {

template <class T>
std::vector<T> gather_scalar(const Communicator& communicator, T value) {
  static_assert(sizeof(T) == 8);
  std::vector<T> all(static_cast<std::size_t>(communicator.size()));
  measure(communicator, Exec(), "scalars", sizeof(T),
          [&] { communicator.backend().host_all_gather(&value, all.data(), sizeof(T)); });
  return all;
}

template std::vector<double> gather_scalar(const Communicator&, double);
template std::vector<Index> gather_scalar(const Communicator&, Index);

namespace {

template <class T>
T sum_of(const std::vector<T>& values) {
  T sum{};
  for (const T value : values) sum += value;
  return sum;
}

}  // namespace

double sum(const Communicator& communicator, double value) {
  return sum_of(gather_scalar(communicator, value));
}
Index sum(const Communicator& communicator, Index value) {
  return sum_of(gather_scalar(communicator, value));
}
double maximum(const Communicator& communicator, double value) {
  const auto all = gather_scalar(communicator, value);
  return *std::max_element(all.begin(), all.end());
}
Index maximum(const Communicator& communicator, Index value) {
  const auto all = gather_scalar(communicator, value);
  return *std::max_element(all.begin(), all.end());
}
double minimum(const Communicator& communicator, double value) {
  const auto all = gather_scalar(communicator, value);
  return *std::min_element(all.begin(), all.end());
}
Index minimum(const Communicator& communicator, Index value) {
  const auto all = gather_scalar(communicator, value);
  return *std::min_element(all.begin(), all.end());
}

}  // namespace minisp::comm
