// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "train/optimizer.hpp"

#include "math/row_reduce.hpp"
#include "util/kokkos_compat.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace minisp::train {

namespace {
// Elements of one partial sum: small enough that a sum in double of lanes stays exact to the last bits, large
// enough that the sum over the partial sums is nothing.
constexpr Index norm_block = 8192;
constexpr int lanes = 16;  // independent sums, so that compilers vectorise in ISO mode
}  // namespace

Index norm_blocks(Index elements) {
  return (elements + norm_block - 1) / norm_block;
}

template <class T>
double global_norm(const Exec& exec, const Vector<const T>& gradients, const Vector<double>& partial_sums) {
  const Index n = static_cast<Index>(gradients.extent(0));
  Kokkos::parallel_for(
      "minisp::optimizer::norm", RowPolicy(exec, 0, norm_blocks(n)), KOKKOS_LAMBDA(const Index block) {
        const Index begin = block * norm_block;
        const Index count = n - begin < norm_block ? n - begin : norm_block;
        const T* values = gradients.data() + begin;
        double sums[lanes] = {};
        Index i = 0;
        for (; i + lanes <= count; i += lanes)
          for (int lane = 0; lane < lanes; ++lane) {
            const double value = static_cast<double>(values[i + lane]);
            sums[lane] += value * value;
          }
        for (int lane = 0; i < count; ++i, ++lane) {
          const double value = static_cast<double>(values[i]);
          sums[lane] += value * value;
        }
        double sum = 0;
        for (int lane = 0; lane < lanes; ++lane) sum += sums[lane];
        partial_sums(block) = sum;
      });
  const auto sums = Kokkos::create_mirror_view_and_copy(
      Kokkos::HostSpace(), Kokkos::subview(partial_sums, Kokkos::make_pair(Index(0), norm_blocks(n))));
  double total = 0;
  for (Index block = 0; block < norm_blocks(n); ++block) total += sums(block);
  return std::sqrt(total);
}

double clip_factor(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

double learning_rate(const config::TrainConfig& train, Index step) {
  if (step < train.learning_rate_warmup)
    return train.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(train.learning_rate_warmup);
  if (train.learning_rate_decay == 0) return train.learning_rate;
  const double progress = std::min(1.0, static_cast<double>(step - train.learning_rate_warmup) /
                                            static_cast<double>(train.learning_rate_decay));
  return train.learning_rate_minimum + 0.5 * (train.learning_rate - train.learning_rate_minimum) *
                                           (1 + std::cos(std::numbers::pi * progress));
}

template <class T>
Optimizer<T>::Optimizer(const config::TrainConfig& train, Index elements) : train_(train) {
  if (train.optimizer != config::OptimizerKind::adamw) return;
  first_moment_ = Vector<Accumulate<T>>("minisp::optimizer::first_moment", elements);
  second_moment_ = Vector<Accumulate<T>>("minisp::optimizer::second_moment", elements);
}

namespace {

// Elements that one team updates.
constexpr Index update_block = 4096;

template <class T>
void sgd_step(const Exec& exec, const Vector<T>& weights, const Vector<const Accumulate<T>>& gradients,
              double scale) {
  using A = Accumulate<T>;
  const auto s = static_cast<A>(scale);
  const Index n = static_cast<Index>(weights.extent(0));
  Kokkos::parallel_for(
      "minisp::optimizer::sgd", math::row_teams(exec, (n + update_block - 1) / update_block),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index begin = static_cast<Index>(team.league_rank()) * update_block;
        T* const w = weights.data() + begin;
        const A* const g = gradients.data() + begin;
        math::for_columns(team, n - begin < update_block ? n - begin : update_block,
                          [=](const Index i) { w[i] = static_cast<T>(w[i] - s * g[i]); });
      });
}

/// What an AdamW step multiplies by; the same for every element.
template <class A>
struct AdamwScalars {
  A factor, decay, beta1, beta2, step_size, inverse_root_correction, epsilon;
};

template <class T>
void adamw_step(const Exec& exec, const Vector<T>& weights, const Vector<const Accumulate<T>>& gradients,
                const Vector<Accumulate<T>>& first, const Vector<Accumulate<T>>& second,
                const AdamwScalars<Accumulate<T>>& s) {
  using A = Accumulate<T>;
  const Index n = static_cast<Index>(weights.extent(0));
  Kokkos::parallel_for(
      "minisp::optimizer::adamw", math::row_teams(exec, (n + update_block - 1) / update_block),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index begin = static_cast<Index>(team.league_rank()) * update_block;
        T* const w = weights.data() + begin;
        const A* const g = gradients.data() + begin;
        A *const m = first.data() + begin, *const v = second.data() + begin;
        math::for_columns(team, n - begin < update_block ? n - begin : update_block, [=](const Index i) {
          const A gradient = s.factor * g[i];
          m[i] = s.beta1 * m[i] + (A(1) - s.beta1) * gradient;
          v[i] = s.beta2 * v[i] + (A(1) - s.beta2) * gradient * gradient;
          const A denominator = compat::math::sqrt(v[i]) * s.inverse_root_correction + s.epsilon;
          w[i] = static_cast<T>(s.decay * w[i] - s.step_size * m[i] / denominator);
        });
      });
}

}  // namespace

template <class T>
void Optimizer<T>::step(const Exec& exec, const Vector<T>& weights,
                        const Vector<const Accumulate<T>>& gradients, double factor, double rate) {
  ++steps_taken_;
  if (train_.optimizer == config::OptimizerKind::sgd) {
    sgd_step<T>(exec, weights, gradients, rate * factor);
    return;
  }
  using A = Accumulate<T>;
  const double t = static_cast<double>(steps_taken_);
  const AdamwScalars<A> scalars{
      static_cast<A>(factor),
      static_cast<A>(1 - rate * train_.weight_decay),
      static_cast<A>(train_.beta1),
      static_cast<A>(train_.beta2),
      static_cast<A>(rate / (1 - std::pow(train_.beta1, t))),
      static_cast<A>(1 / std::sqrt(1 - std::pow(train_.beta2, t))),
      static_cast<A>(train_.epsilon),
  };
  adamw_step<T>(exec, weights, gradients, first_moment_, second_moment_, scalars);
}

template double global_norm<float>(const Exec&, const Vector<const float>&, const Vector<double>&);
template double global_norm<double>(const Exec&, const Vector<const double>&, const Vector<double>&);
template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace minisp::train
