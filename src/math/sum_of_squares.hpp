// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Sum of squares of a long vector in double, in an order that depends on its length alone.
#pragma once

#include "math/precision.hpp"
#include "util/views.hpp"

namespace minisp::math {

/// Elements that sum_of_squares needs in its workspace for n elements.
Index partial_sums(Index n);

/// sum_i values(i)^2. Waits for `exec`.
template <class T>
double sum_of_squares(const Exec& exec, const Vector<const T>& values, const Vector<double>& workspace);

}  // namespace minisp::math
