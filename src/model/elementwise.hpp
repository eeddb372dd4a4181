// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Passes over whole matrices, bound by memory bandwidth.
#pragma once

#include "util/views.hpp"

namespace minisp::model {

/// x += y, both (rows, columns).
template <class T>
void add(const Exec& exec, const Matrix<const T>& y, const Matrix<T>& x);

/// x *= factor.
template <class T>
void scale(const Exec& exec, T factor, const Vector<T>& x);

}  // namespace minisp::model
