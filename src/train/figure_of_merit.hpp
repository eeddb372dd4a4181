// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The figure of merit and the fixed operation count behind it (doc/figure_of_merit.md).
#pragma once

#include "config/architecture.hpp"
#include "util/views.hpp"

#include <vector>

namespace minisp::train {

/// Floating-point operations that one step of the model needs, however it is executed: matrix products of
/// every token (6 per weight, the embedding look-up left out and the head counted, tied or not) and attention
/// (12 head_dim per query head, layer and visible query-key pair). Forward once, backward twice;
/// recomputation does not count. `visible_pairs` is summed over the sequences of the step.
double model_flops(const config::Architecture& architecture, Index tokens, Index visible_pairs);

double median(std::vector<double> values);

/// Matrix-product rate of this rank in FLOP/s in T: the best of several products of 1024^3
/// (512^3 in fp64) through math::gemm. Every rank of a node measures at once, as they compute at once.
template <class T>
double measure_gemm_rate(const Exec& exec);

}  // namespace minisp::train
