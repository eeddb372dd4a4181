// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What differs between Kokkos 3.4 (Debian 12) and 5.x, in one place. Each entry says which version lets
// it go.
#pragma once

#include "util/views.hpp"

#include <Kokkos_Core.hpp>

namespace minisp::compat {

// Math functions: Kokkos::Experimental until 3.6, Kokkos:: from 3.7 on.
#if KOKKOS_VERSION < 30700
namespace math = Kokkos::Experimental;
#else
namespace math = Kokkos;
#endif

}  // namespace minisp::compat
