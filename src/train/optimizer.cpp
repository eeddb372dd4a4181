// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "train/optimizer.hpp"

#include "math/row_reduce.hpp"
#include "util/kokkos_compat.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace minisp::train {

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

template <class T, class G>
void sgd_step(const Exec& exec, const Vector<Accumulate<T>>& master, const Vector<T>& weights,
              const Vector<const G>& gradients, double scale) {
  using A = Accumulate<T>;
  const auto s = static_cast<A>(scale);
  const Index n = static_cast<Index>(weights.extent(0));
  Kokkos::parallel_for(
      "minisp::optimizer::sgd", math::row_teams(exec, (n + update_block - 1) / update_block),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index begin = static_cast<Index>(team.league_rank()) * update_block;
        T* const rounded = weights.data() + begin;
        A* const w = master.data() + begin;
        const G* const g = gradients.data() + begin;
        math::for_columns(team, n - begin < update_block ? n - begin : update_block, [=](const Index i) {
          w[i] -= s * static_cast<A>(g[i]);
          if constexpr (is_mixed<T>) rounded[i] = static_cast<T>(w[i]);
        });
      });
}

/// What an AdamW step multiplies by; the same for every element.
template <class A>
struct AdamwScalars {
  A factor, decay, beta1, beta2, step_size, inverse_root_correction, epsilon;
};

template <class T, class G>
void adamw_step(const Exec& exec, const Vector<Accumulate<T>>& master, const Vector<T>& weights,
                const Vector<const G>& gradients, const Vector<Accumulate<T>>& first,
                const Vector<Accumulate<T>>& second, const AdamwScalars<Accumulate<T>>& s) {
  using A = Accumulate<T>;
  const Index n = static_cast<Index>(weights.extent(0));
  Kokkos::parallel_for(
      "minisp::optimizer::adamw", math::row_teams(exec, (n + update_block - 1) / update_block),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index begin = static_cast<Index>(team.league_rank()) * update_block;
        T* const rounded = weights.data() + begin;
        A* const w = master.data() + begin;
        const G* const g = gradients.data() + begin;
        A *const m = first.data() + begin, *const v = second.data() + begin;
        math::for_columns(team, n - begin < update_block ? n - begin : update_block, [=](const Index i) {
          const A gradient = s.factor * static_cast<A>(g[i]);
          m[i] = s.beta1 * m[i] + (A(1) - s.beta1) * gradient;
          v[i] = s.beta2 * v[i] + (A(1) - s.beta2) * gradient * gradient;
          const A denominator = compat::math::sqrt(v[i]) * s.inverse_root_correction + s.epsilon;
          w[i] = s.decay * w[i] - s.step_size * m[i] / denominator;
          if constexpr (is_mixed<T>) rounded[i] = static_cast<T>(w[i]);
        });
      });
}

}  // namespace

template <class T>
void Optimizer<T>::begin_step(double factor, double rate) {
  ++steps_taken_;
  factor_ = factor;
  rate_ = rate;
}

template <class T>
template <class G>
void Optimizer<T>::update(const Exec& exec, const Vector<Accumulate<T>>& master, const Vector<T>& weights,
                          const Vector<const G>& gradients, Index state) {
  if (train_.optimizer == config::OptimizerKind::sgd)
    return sgd_step<T, G>(exec, master, weights, gradients, rate_ * factor_);
  using A = Accumulate<T>;
  const double t = static_cast<double>(steps_taken_);
  const AdamwScalars<A> scalars{
      static_cast<A>(factor_),
      static_cast<A>(1 - rate_ * train_.weight_decay),
      static_cast<A>(train_.beta1),
      static_cast<A>(train_.beta2),
      static_cast<A>(rate_ / (1 - std::pow(train_.beta1, t))),
      static_cast<A>(1 / std::sqrt(1 - std::pow(train_.beta2, t))),
      static_cast<A>(train_.epsilon),
  };
  const auto part = Kokkos::make_pair(state, state + static_cast<Index>(weights.extent(0)));
  adamw_step<T, G>(exec, master, weights, gradients, Kokkos::subview(first_moment_, part),
                   Kokkos::subview(second_moment_, part), scalars);
}

template <class T>
std::vector<typename Optimizer<T>::Moment> Optimizer<T>::moments() const {
  if (train_.optimizer != config::OptimizerKind::adamw) return {};
  return {{"first_moment", "AdamW's mean of the gradient", first_moment_},
          {"second_moment", "AdamW's mean of the gradient's square", second_moment_}};
}

#define MINISP_INSTANTIATE(T, G)                                                                     \
  template void Optimizer<T>::update<G>(const Exec&, const Vector<Accumulate<T>>&, const Vector<T>&, \
                                        const Vector<const G>&, Index);
template class Optimizer<double>;
template class Optimizer<float>;
template class Optimizer<bfloat16>;
MINISP_INSTANTIATE(double, double)
MINISP_INSTANTIATE(float, float)
MINISP_INSTANTIATE(bfloat16, bfloat16)
MINISP_INSTANTIATE(bfloat16, float)
#undef MINISP_INSTANTIATE

}  // namespace minisp::train
