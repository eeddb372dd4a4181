// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Fits of few constants to some measurements.
#pragma once

#include <functional>
#include <vector>

namespace minisp::perfmodel {

/// x >= 0 that minimises the sum over rows of (row . x - value)^2. Rows of one length of at most 8; columns
/// of zeros get 0. Every subset of the columns is tried, so that the minimum is the global one.
std::vector<double> nonnegative_least_squares(const std::vector<std::vector<double>>& rows,
                                              const std::vector<double>& values);

/// A minimum of `f` near `start` by the simplex method of Nelder and Mead (Computer Journal 7, 1965), first
/// simplex `step` wide, at most `evaluations` of f.
std::vector<double> simplex_minimum(const std::function<double(const std::vector<double>&)>& f,
                                    std::vector<double> start, double step, int evaluations);

}  // namespace minisp::perfmodel
