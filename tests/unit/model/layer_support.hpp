// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What the tests of the layers share: random tensors as host vectors of double, copies to and from views, and
// derivatives by differences.
#pragma once

#include "math/precision.hpp"
#include "math/random.hpp"
#include "util/views.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace minisp::test {

using Values = std::vector<double>;
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

inline Values random_values(Index n, std::uint64_t stream) {
  Values v(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i)
    v[static_cast<std::size_t>(i)] = math::random_normal(7, stream, static_cast<std::uint64_t>(i));
  return v;
}

/// Random integers below `bound`.
inline std::vector<int> random_integers(Index n, int bound, std::uint64_t stream) {
  std::vector<int> v;
  for (Index i = 0; i < n; ++i)
    v.push_back(static_cast<int>(bound * math::random_uniform(7, stream, static_cast<std::uint64_t>(i))));
  return v;
}

/// Row-major values as a device matrix; `padding` columns lie between its rows and hold NaN.
template <class T>
Matrix<T> matrix(Index rows, Index columns, const Values& values, Index padding = 0) {
  Matrix<T> whole("test", rows, columns + padding);
  const auto host = Kokkos::create_mirror_view(whole);
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < columns; ++c)
      host(r, c) = static_cast<T>(values[static_cast<std::size_t>(r * columns + c)]);
    for (Index c = columns; c < columns + padding; ++c) host(r, c) = static_cast<T>(nan);
  }
  Kokkos::deep_copy(whole, host);
  return columns_of(whole, 0, columns);
}
template <class T>
Matrix<T> matrix(Index rows, Index columns, double value) {
  return matrix<T>(rows, columns, Values(static_cast<std::size_t>(rows * columns), value));
}

template <class T, class Source>
Vector<T> vector(const std::vector<Source>& values) {
  Vector<T> v("test", values.size());
  const auto host = Kokkos::create_mirror_view(v);
  for (std::size_t i = 0; i < values.size(); ++i) host(i) = static_cast<T>(values[i]);
  Kokkos::deep_copy(v, host);
  return v;
}

template <class T>
Values values_of(const Matrix<T>& m) {
  Exec().fence();
  using Value = std::remove_const_t<T>;
  Matrix<Value> packed("test", m.extent(0),
                       m.extent(1));  // a strided view has no mirror of its own on a device
  Kokkos::deep_copy(packed, m);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), packed);
  Values values;
  for (std::size_t r = 0; r < host.extent(0); ++r)
    for (std::size_t c = 0; c < host.extent(1); ++c) values.push_back(static_cast<double>(host(r, c)));
  return values;
}
template <class T>
Values values_of(const Vector<T>& v) {
  Exec().fence();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), v);
  Values values;
  for (std::size_t i = 0; i < host.extent(0); ++i) values.push_back(static_cast<double>(host(i)));
  return values;
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
inline double norm(const Values& a) {
  return std::sqrt(dot(a, a));
}
inline Values difference(const Values& a, const Values& b) {
  Values d(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return d;
}
/// |a - b| / |b|; NaN when any element is NaN.
inline double relative_error(const Values& a, const Values& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  return norm(difference(a, b)) / norm(b);
}
/// A sum of two numbers that T holds, as kernels form and store it.
template <class T>
double stored(double sum) {
  return static_cast<double>(static_cast<T>(static_cast<Accumulate<T>>(sum)));
}
/// What values in T can hold: the reference must see the same numbers as the kernel.
template <class T>
Values rounded(Values v) {
  for (double& x : v) x = static_cast<double>(static_cast<T>(x));
  return v;
}

/// Relative norm that rounding explains. A layer's element is a few roundings, or a sum whose error grows
/// like the square root of its at most some hundred terms: about 10 units of 1.2e-7 or 2.2e-16.
/// What is stored in bf16 is summed in fp32 and rounded once or twice, by 2^-8 of its size at most.
template <class T>
inline constexpr double tolerance = is_mixed<T> ? 2.0 / 256
                                                : 10 * std::numeric_limits<Accumulate<T>>::epsilon();

/// dloss/dinput by fourth-order central differences, step 1e-3: the method's error is about 1e-12 of the
/// fifth derivative, rounding about 1e-13 of the loss.
inline Values differentiate(Values input, const std::function<double(const Values&)>& loss) {
  constexpr double h = 1e-3;
  Values gradient;
  for (double& x : input) {
    const double kept = x;
    const auto at = [&](double shift) {
      x = kept + shift;
      return loss(input);
    };
    gradient.push_back((8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h));
    x = kept;
  }
  return gradient;
}
/// Between analytic gradients in double and `differentiate`.
inline constexpr double difference_tolerance = 1e-9;

}  // namespace minisp::test
