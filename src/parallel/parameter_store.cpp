// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/parameter_store.hpp"

#include "comm/all_reduce.hpp"
#include "comm/reduce_scatter.hpp"
#include "comm/scalars.hpp"
#include "math/row_reduce.hpp"
#include "math/sum_of_squares.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

namespace minisp::parallel {

namespace {

using config::Sharding;

bool shards_weights(Sharding s) {
  return s == Sharding::zero3 || s == Sharding::mics;
}
bool shards_gradients(Sharding s) {
  return s == Sharding::zero2 || shards_weights(s);
}

// Slots that sharded units are gathered into: the embeddings, two in turn for blocks (one computes while the
// next arrives), the final norm and head. Gradients need one slot for blocks.
constexpr int embedding_slot = 0, first_block_slot = 1, final_slot = 3, slots = 4;

int weight_slot(int unit, int units) {
  if (unit == 0) return embedding_slot;
  return unit + 1 == units ? final_slot : first_block_slot + unit % 2;
}

template <class T>
Vector<T> part(const Vector<T>& buffer, Index begin, Index size) {
  return Kokkos::subview(buffer, Kokkos::make_pair(begin, begin + size));
}

Index ceil_div(Index a, Index b) {
  return (a + b - 1) / b;
}

/// target = or += source, rounded to the target's type.
template <class To, class From>
void convert(const Exec& exec, const Vector<From>& source, bool add, const Vector<To>& target) {
  using A = Accumulate<To>;
  const Index n = static_cast<Index>(target.extent(0));
  constexpr Index block = 4096;
  Kokkos::parallel_for(
      "minisp::parameters::convert", math::row_teams(exec, ceil_div(n, block)),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index begin = static_cast<Index>(team.league_rank()) * block;
        const From* const from = source.data() + begin;
        To* const to = target.data() + begin;
        const Index count = n - begin < block ? n - begin : block;
        if (add)
          math::for_columns(team, count, [=](const Index i) {
            to[i] = static_cast<To>(static_cast<A>(to[i]) + static_cast<A>(from[i]));
          });
        else
          math::for_columns(team, count,
                            [=](const Index i) { to[i] = static_cast<To>(static_cast<A>(from[i])); });
      });
}

bool narrow(bool mixed, const StoreOptions& options) {
  return mixed && !options.wide_gradients;
}

}  // namespace

template <class T>
ParameterStore<T>::ParameterStore(const Mesh& mesh, const config::Architecture& architecture,
                                  const model::ParameterLayout& layout, const StoreOptions& options,
                                  PhaseTimers& timers)
    : mesh_(mesh),
      timers_(timers),
      sharding_(mesh.plan().sharding),
      options_(options),
      flat_size_(layout.size()),
      pending_(slots),
      resident_(slots, -1) {
  const Index ranks = mesh.plan().shard_ranks;
  const int count = static_cast<int>(layout.units().size());
  Index full = 0, shard = 0, largest_block = 0;
  for (int u = 0; u < count; ++u) {
    const auto& unit = layout.units()[static_cast<std::size_t>(u)];
    const Index chunk = ceil_div(unit.size, ranks);
    units_.push_back({unit.offset, unit.size, chunk, full, shard, weight_slot(u, count)});
    full += chunk * ranks;
    shard += chunk;
    if (u > 0 && u + 1 < count) largest_block = std::max(largest_block, chunk * ranks);
  }
  const Index padded[slots] = {units_.front().chunk * ranks, largest_block, largest_block,
                               units_.back().chunk * ranks};
  if (shards_weights(sharding_))
    for (const Index size : padded) weight_slots_.emplace_back("minisp::parameters::gathered", size);
  const bool narrows = narrow(is_mixed<T>, options_);
  if (shards_gradients(sharding_) || narrows)
    for (const int slot : {embedding_slot, first_block_slot, final_slot})
      gradient_slots_.emplace_back("minisp::parameters::unit_gradient", padded[slot]);
  weights_ = Vector<T>("minisp::parameters::weights", shards_weights(sharding_) ? shard : full);
  const Index kept = shards_gradients(sharding_) ? shard : full;
  if constexpr (is_mixed<T>) {
    master_ = Vector<Sum>("minisp::parameters::master", shard);
    if (narrows) gradients_.narrow = Vector<T>("minisp::parameters::gradients", kept);
    if (narrows && shards_gradients(sharding_))
      narrowed_ =
          Vector<T>("minisp::parameters::narrowed", *std::max_element(std::begin(padded), std::end(padded)));
  }
  if (!narrows) gradients_.wide = Vector<Sum>("minisp::parameters::gradients", kept);
  norm_partial_sums_ = Vector<double>("minisp::parameters::norm", math::partial_sums(std::max(shard, full)));

  std::vector<T*> weight_pointers;
  std::vector<Sum*> gradient_pointers;
  for (int u = 0; u < count; ++u) {
    weight_pointers.push_back(whole_weights(u).data());
    gradient_pointers.push_back(whole_gradient(u).data());
  }
  weight_views_ = model::view_parameters(architecture, layout, weight_pointers);
  gradient_views_ = model::view_parameters(architecture, layout, gradient_pointers);
}

// ---- where a unit lies

template <class T>
Vector<T> ParameterStore<T>::whole_weights(int u) const {
  const auto& unit = units_[static_cast<std::size_t>(u)];
  const Index size = unit.chunk * mesh_.plan().shard_ranks;
  if (shards_weights(sharding_)) return part(weight_slots_[static_cast<std::size_t>(unit.slot)], 0, size);
  return part(weights_, unit.full, size);
}

template <class T>
Vector<Accumulate<T>> ParameterStore<T>::whole_gradient(int u) const {
  const auto& unit = units_[static_cast<std::size_t>(u)];
  const Index size = unit.chunk * mesh_.plan().shard_ranks;
  if (!gathers_gradients()) return part(gradients_.wide, unit.full, size);
  const std::size_t slot = unit.slot == embedding_slot ? 0 : unit.slot == final_slot ? 2 : 1;
  return part(gradient_slots_[slot], 0, size);
}

template <class T>
Vector<T> ParameterStore<T>::weight_shard(int u) const {
  const auto& unit = units_[static_cast<std::size_t>(u)];
  const Index begin = shards_weights(sharding_) ? unit.shard : unit.full + mesh_.shard().rank() * unit.chunk;
  return part(weights_, begin, unit.chunk);
}

/// Where this rank's chunk begins in gradients_.
template <class T>
Index ParameterStore<T>::gradient_begin(int u) const {
  const auto& unit = units_[static_cast<std::size_t>(u)];
  return shards_gradients(sharding_) ? unit.shard : unit.full + mesh_.shard().rank() * unit.chunk;
}

// ---- weights of one unit

template <class T>
void ParameterStore<T>::prefetch(const Exec& exec, int u) {
  if (!options_.prefetch || !shards_weights(sharding_)) return;
  const auto slot = static_cast<std::size_t>(units_[static_cast<std::size_t>(u)].slot);
  auto phase = timers_.phase(phase::gather_weights);
  auto label = mesh_.shard().ledger().phase(phase::gather_weights);
  pending_[slot] = comm::start_all_gather<T>(mesh_.shard(), exec, weight_shard(u), whole_weights(u));
  resident_[slot] = u;
}

template <class T>
void ParameterStore<T>::acquire(const Exec& exec, int u) {
  if (!shards_weights(sharding_)) return;
  const auto slot = static_cast<std::size_t>(units_[static_cast<std::size_t>(u)].slot);
  auto phase = timers_.phase(phase::gather_weights);
  if (resident_[slot] == u) {
    pending_[slot].wait();
    return;
  }
  auto label = mesh_.shard().ledger().phase(phase::gather_weights);
  comm::all_gather<T>(mesh_.shard(), exec, weight_shard(u), whole_weights(u));
  resident_[slot] = u;
}

template <class T>
void ParameterStore<T>::release(int u) {
  resident_[static_cast<std::size_t>(units_[static_cast<std::size_t>(u)].slot)] = -1;
}

// ---- gradients

template <class T>
void ParameterStore<T>::zero_gradients(const Exec& exec) {
  gradients_.visit([&](const auto& kept) {
    using G = typename std::decay_t<decltype(kept)>::value_type;
    Kokkos::deep_copy(exec, kept, G(0));
  });
  for (const auto& slot : gradient_slots_) Kokkos::deep_copy(exec, slot, Sum(0));
}

template <class T>
void ParameterStore<T>::retire_gradient(const Exec& exec, int u) {
  if (!gathers_gradients()) return;
  auto phase = timers_.phase(phase::reduce_gradients);
  auto label = mesh_.shard().ledger().phase(phase::reduce_gradients);
  const auto whole = whole_gradient(u);
  const auto& unit = units_[static_cast<std::size_t>(u)];
  gradients_.visit([&](const auto& kept) {
    using G = typename std::decay_t<decltype(kept)>::value_type;
    if (!shards_gradients(sharding_))
      return convert(exec, whole, true, part(kept, unit.full, static_cast<Index>(whole.extent(0))));
    Vector<G> sent;
    if constexpr (std::is_same_v<G, Sum>) {
      sent = whole;
    } else {
      sent = part(narrowed_, 0, static_cast<Index>(whole.extent(0)));
      convert(exec, whole, false, sent);
    }
    comm::reduce_scatter_sum<G>(mesh_.shard(), exec, sent, true, part(kept, unit.shard, unit.chunk));
  });
  Kokkos::deep_copy(exec, whole, Sum(0));
}

template <class T>
void ParameterStore<T>::finish_gradients(const Exec& exec) {
  auto phase = timers_.phase(phase::reduce_gradients);
  auto label = mesh_.world().ledger().phase(phase::reduce_gradients);
  gradients_.visit([&](const auto& kept) {
    using G = typename std::decay_t<decltype(kept)>::value_type;
    for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
      const auto& unit = units_[static_cast<std::size_t>(u)];
      if (sharding_ != Sharding::none && sharding_ != Sharding::zero1) continue;
      const auto whole = part(kept, unit.full, unit.chunk * mesh_.plan().shard_ranks);
      if (sharding_ == Sharding::none)
        comm::all_reduce_sum(mesh_.world(), exec, whole);
      else
        comm::reduce_scatter_sum<G>(mesh_.shard(), exec, whole, false,
                                    part(kept, gradient_begin(u), unit.chunk));
    }
    if (sharding_ == Sharding::mics) comm::all_reduce_sum(mesh_.replicas(), exec, kept);
  });
}

template <class T>
double ParameterStore<T>::gradient_norm(const Exec& exec) {
  double sum = 0;
  for (const auto& piece : pieces())
    sum += piece.gradients.visit([&](const auto& gradients) {
      using G = typename std::decay_t<decltype(gradients)>::value_type;
      return math::sum_of_squares<G>(exec, gradients, norm_partial_sums_);
    });
  auto label = mesh_.world().ledger().phase(phase::gradient_norm);
  return std::sqrt(sharding_ == Sharding::none ? sum : comm::sum(mesh_.shard(), sum));
}

// ---- what this rank updates

template <class T>
std::vector<typename ParameterStore<T>::Piece> ParameterStore<T>::pieces() const {
  std::vector<Piece> pieces;
  const Index rank = mesh_.shard().rank();
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    const auto& unit = units_[static_cast<std::size_t>(u)];
    const Index begin = std::min(unit.size, rank * unit.chunk);
    const Index size = std::min(unit.size, begin + unit.chunk) - begin;  // the last chunks may hold padding
    if (size == 0) continue;
    Piece piece{unit.offset + begin, unit.shard, part(weight_shard(u), 0, size), {}, {}};
    if constexpr (is_mixed<T>)
      piece.master = part(master_, unit.shard, size);
    else
      piece.master = piece.weights;
    if (gradients_.is_narrow())
      piece.gradients.narrow = part(gradients_.narrow, gradient_begin(u), size);
    else
      piece.gradients.wide = part(gradients_.wide, gradient_begin(u), size);
    pieces.push_back(piece);
  }
  return pieces;
}

template <class T>
Index ParameterStore<T>::state_elements() const {
  return units_.back().shard + units_.back().chunk;
}

template <class T>
void ParameterStore<T>::round_weights(const Exec& exec) {
  if constexpr (is_mixed<T>)
    for (const auto& piece : pieces()) convert(exec, piece.master, false, piece.weights);
}

template <class T>
void ParameterStore<T>::publish_weights(const Exec& exec) {
  std::fill(resident_.begin(), resident_.end(), -1);
  if (sharding_ != Sharding::zero1 && sharding_ != Sharding::zero2) return;
  auto phase = timers_.phase(phase::gather_weights);
  auto label = mesh_.shard().ledger().phase(phase::gather_weights);
  for (int u = 0; u < static_cast<int>(units_.size()); ++u)
    comm::all_gather_in_place(mesh_.shard(), exec, whole_weights(u));
}

// ---- whole buffers

template <class T>
template <class E, class Get>
Vector<E> ParameterStore<T>::gather_flat(const Exec& exec, Get get) const {
  Vector<E> flat(uninitialized("minisp::parameters::flat"), flat_size_);
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    const auto& unit = units_[static_cast<std::size_t>(u)];
    Vector<E> whole(uninitialized("minisp::parameters::whole"), unit.chunk * mesh_.plan().shard_ranks);
    comm::all_gather<E>(mesh_.shard(), exec, get(u), whole);
    Kokkos::deep_copy(exec, part(flat, unit.offset, unit.size), part(whole, 0, unit.size));
  }
  exec.fence();
  return flat;
}

template <class T>
Vector<T> ParameterStore<T>::full_weights(const Exec& exec) const {
  if (sharding_ == Sharding::none) return weights_;
  return gather_flat<T>(exec, [this](int u) { return weight_shard(u); });
}

template <class T>
Vector<Accumulate<T>> ParameterStore<T>::full_gradients(const Exec& exec) const {
  return gradients_.visit([&](const auto& kept) {
    using G = typename std::decay_t<decltype(kept)>::value_type;
    const auto flat = sharding_ == Sharding::none ? kept : gather_flat<G>(exec, [&](int u) {
      return part(kept, gradient_begin(u), units_[static_cast<std::size_t>(u)].chunk);
    });
    if constexpr (std::is_same_v<G, Sum>) {
      return flat;
    } else {
      Vector<Sum> wide(uninitialized("minisp::parameters::flat"), flat.extent(0));
      convert(exec, flat, false, wide);
      exec.fence();
      return wide;
    }
  });
}

template <class T>
StoreMemory ParameterStore<T>::memory(const config::Architecture& architecture, const Plan& plan,
                                      const StoreOptions& options) {
  const model::ParameterLayout layout(architecture);
  const Index p = plan.shard_ranks;
  Index full = 0, shard = 0, block = 0;
  for (const auto& unit : layout.units()) {
    const Index chunk = ceil_div(unit.size, p);
    full += chunk * p;
    shard += chunk;
    if (&unit != &layout.units().front() && &unit != &layout.units().back())
      block = std::max(block, chunk * p);
  }
  const Index first = ceil_div(layout.units().front().size, p) * p,
              last = ceil_div(layout.units().back().size, p) * p;
  const Index largest = std::max({block, first, last});
  const bool narrows = narrow(is_mixed<T>, options);
  const Index weight = sizeof(T), sum = sizeof(Sum), gradient = narrows ? sizeof(T) : sizeof(Sum);
  StoreMemory memory;
  memory.weights = weight * (shards_weights(plan.sharding) ? shard : full);
  memory.gradients = gradient * (shards_gradients(plan.sharding) ? shard : full);
  if (is_mixed<T>) memory.master = sum * shard;
  if (shards_weights(plan.sharding)) memory.workspace += weight * (first + last + 2 * block);
  if (shards_gradients(plan.sharding) || narrows) memory.workspace += sum * (first + last + block);
  if (shards_gradients(plan.sharding) && narrows) memory.workspace += gradient * largest;
  memory.state_elements = shard;
  const auto all_reduce = [&](Index elements, int ranks) {
    return static_cast<Index>(
        comm::all_reduce_workspace_bytes(elements, static_cast<std::size_t>(gradient), ranks));
  };
  if (plan.sharding == Sharding::none)
    memory.communication = all_reduce(largest, plan.ranks);
  else if (p > 1)
    memory.communication = gradient * largest;
  if (plan.sharding == Sharding::mics)
    memory.communication += all_reduce(shard, plan.ranks / static_cast<int>(p));
  return memory;
}

template class ParameterStore<bfloat16>;
template class ParameterStore<float>;
template class ParameterStore<double>;

}  // namespace minisp::parallel
