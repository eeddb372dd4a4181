// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "train/figure_of_merit.hpp"

#include "math/gemm.hpp"

#include <algorithm>
#include <chrono>
#include <type_traits>

namespace minisp::train {

double model_flops(const config::Architecture& a, Index tokens, Index visible_pairs) {
  const double up = (a.mlp == config::Mlp::swiglu ? 2.0 : 1.0) * static_cast<double>(a.intermediate);
  const double block = static_cast<double>(a.hidden) * static_cast<double>(a.q_size() + 2 * a.kv_size()) +
                       static_cast<double>(a.q_size()) * static_cast<double>(a.hidden) +
                       static_cast<double>(a.hidden) * (up + static_cast<double>(a.intermediate));
  const double weights = static_cast<double>(a.layers) * block +
                         static_cast<double>(a.vocabulary) * static_cast<double>(a.hidden);
  const double attention = 12.0 * static_cast<double>(a.layers) * static_cast<double>(a.q_size());
  return 6.0 * weights * static_cast<double>(tokens) + attention * static_cast<double>(visible_pairs);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

template <class T>
double measure_gemm_rate(const Exec& exec) {
  using Clock = std::chrono::steady_clock;
  constexpr Index n = std::is_same_v<T, double> ? 512 : 1024;
  constexpr int repetitions = 5;
  Matrix<T> a("minisp::gemm_rate::a", n, n), b("minisp::gemm_rate::b", n, n), c("minisp::gemm_rate::c", n, n);
  Kokkos::deep_copy(exec, a, T(1));
  Kokkos::deep_copy(exec, b, T(1));
  double best = 0;
  for (int repetition = 0; repetition <= repetitions; ++repetition) {  // the first one warms up
    exec.fence();
    const auto start = Clock::now();
    math::gemm<T>(exec, math::Op::none, math::Op::transpose, Accumulate<T>(1), a, b, Accumulate<T>(0), c);
    exec.fence();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (repetition > 0) best = std::max(best, 2.0 * n * n * n / seconds);
  }
  return best;
}

template double measure_gemm_rate<bfloat16>(const Exec&);
template double measure_gemm_rate<float>(const Exec&);
template double measure_gemm_rate<double>(const Exec&);

}  // namespace minisp::train
