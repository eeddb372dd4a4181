// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "perfmodel/least_squares.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace minisp::perfmodel {

namespace {

using Matrix = std::vector<std::vector<double>>;

/// a x = b by elimination with pivots; empty where a is singular.
std::vector<double> solve(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < n; ++row)
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    if (std::abs(a[pivot][column]) < 1e-12) return {};  // columns are scaled to 1
    std::swap(a[pivot], a[column]);
    std::swap(b[pivot], b[column]);
    for (std::size_t row = column + 1; row < n; ++row) {
      const double factor = a[row][column] / a[column][column];
      for (std::size_t i = column; i < n; ++i) a[row][i] -= factor * a[column][i];
      b[row] -= factor * b[column];
    }
  }
  for (std::size_t row = n; row-- > 0;) {
    for (std::size_t i = row + 1; i < n; ++i) b[row] -= a[row][i] * b[i];
    b[row] /= a[row][row];
  }
  return b;
}

}  // namespace

std::vector<double> nonnegative_least_squares(const Matrix& rows, const std::vector<double>& values) {
  const std::size_t n = rows.empty() ? 0 : rows.front().size();
  if (n > 8) throw std::invalid_argument("nonnegative_least_squares: at most 8 columns");
  std::vector<double> scale(n, 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < n; ++i) scale[i] += row[i] * row[i];
  for (auto& s : scale) s = std::sqrt(s);
  std::vector<double> best(n, 0);
  double least = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  for (unsigned subset = 1; subset < 1U << n; ++subset) {
    std::vector<std::size_t> columns;
    for (std::size_t i = 0; i < n; ++i)
      if ((subset >> i & 1U) != 0 && scale[i] > 0) columns.push_back(i);
    Matrix normal(columns.size(), std::vector<double>(columns.size(), 0));
    std::vector<double> right(columns.size(), 0);
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t i = 0; i < columns.size(); ++i) {
        const double left = rows[r][columns[i]] / scale[columns[i]];
        right[i] += left * values[r];
        for (std::size_t j = 0; j < columns.size(); ++j)
          normal[i][j] += left * rows[r][columns[j]] / scale[columns[j]];
      }
    const auto x = solve(normal, right);
    if (x.empty() || std::any_of(x.begin(), x.end(), [](double v) { return v < 0; })) continue;
    double error = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      double off = -values[r];
      for (std::size_t i = 0; i < columns.size(); ++i) off += rows[r][columns[i]] / scale[columns[i]] * x[i];
      error += off * off;
    }
    if (error >= least * (1 - 1e-12)) continue;
    least = error;
    std::fill(best.begin(), best.end(), 0);
    for (std::size_t i = 0; i < columns.size(); ++i) best[columns[i]] = x[i] / scale[columns[i]];
  }
  return best;
}

std::vector<double> simplex_minimum(const std::function<double(const std::vector<double>&)>& f,
                                    std::vector<double> start, double step, int evaluations) {
  const std::size_t n = start.size();
  struct Corner {
    std::vector<double> x;
    double value;
  };
  std::vector<Corner> corners{{start, f(start)}};
  for (std::size_t i = 0; i < n; ++i) {
    auto x = start;
    x[i] += step;
    corners.push_back({x, f(x)});
  }
  int used = static_cast<int>(n) + 1;
  const auto by_value = [](const Corner& a, const Corner& b) { return a.value < b.value; };
  while (used < evaluations) {
    std::sort(corners.begin(), corners.end(), by_value);
    std::vector<double> centre(n, 0);
    for (std::size_t c = 0; c < n; ++c)
      for (std::size_t i = 0; i < n; ++i) centre[i] += corners[c].x[i] / static_cast<double>(n);
    Corner& worst = corners.back();
    const auto along = [&](double t) {
      Corner corner{centre, 0};
      for (std::size_t i = 0; i < n; ++i) corner.x[i] += t * (worst.x[i] - centre[i]);
      corner.value = f(corner.x);
      ++used;
      return corner;
    };
    const Corner reflected = along(-1);
    if (reflected.value < corners.front().value) {
      const Corner expanded = along(-2);
      worst = expanded.value < reflected.value ? expanded : reflected;
    } else if (reflected.value < corners[n - 1].value) {
      worst = reflected;
    } else {
      const Corner contracted = along(reflected.value < worst.value ? -0.5 : 0.5);
      if (contracted.value < std::min(reflected.value, worst.value)) {
        worst = contracted;
        continue;
      }
      for (std::size_t c = 1; c <= n; ++c) {
        for (std::size_t i = 0; i < n; ++i) corners[c].x[i] = 0.5 * (corners[c].x[i] + corners[0].x[i]);
        corners[c].value = f(corners[c].x);
        ++used;
      }
    }
  }
  return std::min_element(corners.begin(), corners.end(), by_value)->x;
}

}  // namespace minisp::perfmodel
