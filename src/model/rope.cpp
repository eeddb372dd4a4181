// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/rope.hpp"

#include "math/column_sum.hpp"
#include "math/row_reduce.hpp"
#include "util/kokkos_compat.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace minisp::model {

std::vector<double> rope_frequencies(double theta, int head_dim,
                                     const std::optional<config::RopeScaling>& scaling) {
  std::vector<double> frequencies;
  for (int i = 0; i < head_dim / 2; ++i) {
    double frequency = std::pow(theta, -2.0 * i / head_dim);
    if (scaling) {
      const double low = scaling->low_frequency_factor, high = scaling->high_frequency_factor;
      const double turns =
          static_cast<double>(scaling->original_max_positions) * frequency / (2 * std::numbers::pi);
      // 0: stretched, 1: kept
      const double blend = std::clamp((turns - low) / (high - low), 0.0, 1.0);
      frequency *= (1 - blend) / scaling->factor + blend;
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

template <class T>
RopeTable<T> make_rope_table(const std::vector<double>& frequencies, Index positions) {
  const Index half = static_cast<Index>(frequencies.size());
  using A = Accumulate<T>;
  RopeTable<T> table{Matrix<A>(uninitialized("minisp::rope::cosine"), positions, half),
                     Matrix<A>(uninitialized("minisp::rope::sine"), positions, half)};
  const auto cosine = Kokkos::create_mirror_view(table.cosine), sine = Kokkos::create_mirror_view(table.sine);
  for (Index p = 0; p < positions; ++p)
    for (Index i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies[static_cast<std::size_t>(i)];
      cosine(p, i) = static_cast<A>(std::cos(angle));
      sine(p, i) = static_cast<A>(std::sin(angle));
    }
  Kokkos::deep_copy(table.cosine, cosine);
  Kokkos::deep_copy(table.sine, sine);
  return table;
}

Index head_norm_workspace(Index rows, const HeadLayout& layout) {
  return math::partial_sum_rows(rows) * (layout.total_q_heads + layout.total_kv_heads) * layout.head_dim;
}

namespace {

enum class HeadKind { query, key, value };

/// A head of the fused projection and where it lies in the packed buffer: in `copies` blocks from `block` on,
/// at head slot `slot` of their rows.
struct HeadPlace {
  HeadKind kind;
  int block, copies, slot;
};

KOKKOS_INLINE_FUNCTION HeadPlace place_of(const HeadLayout& layout, int head) {
  const int q_heads = layout.q_heads(), kv_heads = layout.kv_heads();
  if (head < layout.total_q_heads) return {HeadKind::query, head / q_heads, 1, head % q_heads};
  const int kv = (head - layout.total_q_heads) % layout.total_kv_heads;
  const bool is_key = head < layout.total_q_heads + layout.total_kv_heads;
  const int first_slot = is_key ? q_heads : q_heads + kv_heads;
  const HeadKind kind = is_key ? HeadKind::key : HeadKind::value;
  if (layout.total_kv_heads >= layout.blocks) return {kind, kv / kv_heads, 1, first_slot + kv % kv_heads};
  const int copies = layout.blocks / layout.total_kv_heads;
  return {kind, kv * copies, copies, first_slot};
}

/// In place, v stays where it is.
KOKKOS_INLINE_FUNCTION int heads_to_visit(const HeadLayout& layout, bool in_place) {
  return layout.total_q_heads + (in_place ? 1 : 2) * layout.total_kv_heads;
}

void check_layout(const HeadLayout& layout, bool in_pairs) {
  if (!layout.fits() || (in_pairs && layout.head_dim % 2 != 0))
    throw std::invalid_argument("rope: the heads do not fit the layout");
}

/// Rotation of element pair (i, i + half) by this row's angles; the identity where the model has none.
template <class T>
struct Rotation {
  using A = Accumulate<T>;
  const A *cosine, *sine;  // of the row's position; null: identity

  KOKKOS_INLINE_FUNCTION void turn(Index i, A& low, A& high) const { apply(i, A(1), low, high); }
  KOKKOS_INLINE_FUNCTION void turn_back(Index i, A& low, A& high) const { apply(i, A(-1), low, high); }

 private:
  KOKKOS_INLINE_FUNCTION void apply(Index i, A direction, A& low, A& high) const {
    if (!cosine) return;
    const A c = cosine[i], s = direction * sine[i];
    const A turned = low * c - high * s;
    high = high * c + low * s;
    low = turned;
  }
};

template <class T>
KOKKOS_INLINE_FUNCTION Rotation<T> rotation_at(const RopeTable<T>& table, bool rotates, int position) {
  if (!rotates) return {nullptr, nullptr};
  return {&table.cosine(position, 0), &table.sine(position, 0)};
}

/// 1 / sqrt(mean of squares + epsilon) of one head.
template <class T>
KOKKOS_INLINE_FUNCTION Accumulate<T> head_inverse_rms(const TeamMember& team, const T* x, Index d,
                                                      double epsilon) {
  using A = Accumulate<T>;
  const A squares = math::lane_sum<A>(team, d, [=](const Index i) {
    const A value = static_cast<A>(x[i]);
    return value * value;
  });
  return A(1) / compat::math::sqrt(squares / static_cast<A>(d) + static_cast<A>(epsilon));
}

/// One head: out = rotation(x [* inverse * weight]); out may be x. weight null: no norm.
template <class T>
KOKKOS_INLINE_FUNCTION void forward_head(const TeamMember& team, Index d, const T* x, const T* weight,
                                         Accumulate<T> inverse, const Rotation<T>& rotation, T* out) {
  using A = Accumulate<T>;
  const Index half = d / 2;
  if (weight) {
    math::for_lanes(team, half, [=](const Index i) {
      A low = static_cast<A>(x[i]) * inverse * static_cast<A>(weight[i]);
      A high = static_cast<A>(x[i + half]) * inverse * static_cast<A>(weight[i + half]);
      rotation.turn(i, low, high);
      out[i] = static_cast<T>(low);
      out[i + half] = static_cast<T>(high);
    });
  } else {
    math::for_lanes(team, half, [=](const Index i) {
      A low = static_cast<A>(x[i]), high = static_cast<A>(x[i + half]);
      rotation.turn(i, low, high);
      out[i] = static_cast<T>(low);
      out[i + half] = static_cast<T>(high);
    });
  }
}

/// Sum of the copies of one head, in block order: the first copy itself where it is the only one, else out.
template <class T>
KOKKOS_INLINE_FUNCTION const T* sum_copies(const TeamMember& team, Index d, const T* first, int copies,
                                           Index stride, T* out) {
  using A = Accumulate<T>;
  if (copies == 1) return first;
  math::for_lanes(team, d, [=](const Index i) {
    A sum = static_cast<A>(first[i]);
    for (int copy = 1; copy < copies; ++copy) sum += static_cast<A>(first[copy * stride + i]);
    out[i] = static_cast<T>(sum);
  });
  return out;
}

/// One head: out = gradient, rotated back; out may be gradient.
template <class T>
KOKKOS_INLINE_FUNCTION void backward_head(const TeamMember& team, Index d, const T* gradient,
                                          const Rotation<T>& rotation, T* out) {
  using A = Accumulate<T>;
  const Index half = d / 2;
  if (rotation.cosine)
    math::for_lanes(team, half, [=](const Index i) {
      A low = static_cast<A>(gradient[i]), high = static_cast<A>(gradient[i + half]);
      rotation.turn_back(i, low, high);
      out[i] = static_cast<T>(low);
      out[i + half] = static_cast<T>(high);
    });
  else if (gradient != out)
    math::for_lanes(team, d, [=](const Index i) { out[i] = gradient[i]; });
}

/// One head through the norm, y = x r w, r = 1 / rms(x); d holds dy and leaves as dx:
///   dx = r (dy w - x r^2 mean(dy w x)),  dweight += dy x r
template <class T>
KOKKOS_INLINE_FUNCTION void norm_backward_head(const TeamMember& team, Index size, const T* x,
                                               const T* weight, Accumulate<T> inverse, T* d,
                                               Accumulate<T>* dweight) {
  using A = Accumulate<T>;
  const A sum = math::lane_sum<A>(team, size, [=](const Index i) {
    return static_cast<A>(d[i]) * static_cast<A>(weight[i]) * static_cast<A>(x[i]);
  });
  const A slope = inverse * inverse * sum / static_cast<A>(size);
  math::for_lanes(team, size, [=](const Index i) {
    const A gradient = static_cast<A>(d[i]), value = static_cast<A>(x[i]);
    dweight[i] += gradient * value * inverse;
    d[i] = static_cast<T>(inverse * (gradient * static_cast<A>(weight[i]) - value * slope));
  });
}

}  // namespace

template <class T>
void rope_pack_forward(const Exec& exec, const HeadLayout& layout, const Matrix<const T>& fused,
                       const Vector<const int>& positions, const RopeTable<T>& table, const HeadNorm<T>& norm,
                       const Matrix<T>& packed) {
  using A = Accumulate<T>;
  const bool rotates = table.rotates(), norms = norm.present(), in_place = packed.data() == fused.data();
  check_layout(layout, rotates || norms);
  if (in_place && !rotates && !norms) return;
  const Index rows = static_cast<Index>(fused.extent(0)), d = layout.head_dim, next_row = row_stride(fused);
  Kokkos::parallel_for(
      "minisp::rope::pack_forward", math::row_teams(exec, rows), KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const Rotation<T> angles = rotation_at(table, rotates, rotates ? positions(r) : 0);
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, heads_to_visit(layout, in_place)),
                             [&](const int head) {
                               const HeadPlace place = place_of(layout, head);
                               const bool is_value = place.kind == HeadKind::value;
                               const T* const x = &fused(r, head * d);
                               // Out of place the row is contiguous and needs no help.
                               if (in_place) math::prefetch_row(x + next_row, d);
                               const T* const weight = is_value || !norms              ? nullptr
                                                       : place.kind == HeadKind::query ? norm.q_weight.data()
                                                                                       : norm.k_weight.data();
                               const A inverse = weight ? head_inverse_rms(team, x, d, norm.epsilon) : A(1);
                               for (int copy = 0; copy < place.copies; ++copy) {
                                 T* const out = &packed((place.block + copy) * rows + r, place.slot * d);
                                 if (weight || (rotates && !is_value))
                                   forward_head(team, d, x, weight, inverse, angles, out);
                                 else
                                   math::for_lanes(team, d, [=](const Index i) { out[i] = x[i]; });
                               }
                             });
      });
}

template <class T>
void rope_pack_backward(const Exec& exec, const HeadLayout& layout, const Matrix<const T>& dpacked,
                        const Vector<const int>& positions, const RopeTable<T>& table,
                        const HeadNorm<T>& norm, const Matrix<const T>& fused, const Matrix<T>& dfused,
                        const HeadNormGradient<T>& norm_gradient) {
  using A = Accumulate<T>;
  const bool rotates = table.rotates(), norms = norm.present(), in_place = dpacked.data() == dfused.data();
  check_layout(layout, rotates || norms);
  if (in_place && !rotates && !norms) return;
  const Index rows = static_cast<Index>(dfused.extent(0)), d = layout.head_dim;
  const Index copy_stride = rows * row_stride(dpacked), q_size = layout.total_q_heads * d;
  // Partial sums of the norm weights: (blocks of rows, q heads then k heads, d).
  const Index rows_per_team = norms ? math::rows_per_partial_sum : 1,
              teams = (rows + rows_per_team - 1) / rows_per_team;
  const Matrix<A> partial(norm_gradient.workspace.data(), teams,
                          norms ? q_size + layout.total_kv_heads * d : 0);
  Kokkos::parallel_for(
      "minisp::rope::pack_backward", math::row_teams(exec, teams), KOKKOS_LAMBDA(const TeamMember& team) {
        const Index block = static_cast<Index>(team.league_rank());
        const Index begin = block * rows_per_team,
                    end = begin + rows_per_team < rows ? begin + rows_per_team : rows;
        // One thread owns a head in all rows of the block, so that its partial sums are its own.
        if (norms) {
          A* const sums = &partial(block, 0);
          Kokkos::parallel_for(Kokkos::TeamThreadRange(team, layout.total_q_heads + layout.total_kv_heads),
                               [&](const int head) {
                                 math::for_lanes(team, d, [=](const Index i) { sums[head * d + i] = A(0); });
                               });
          team.team_barrier();  // ranges of another length may be dealt to the threads in another way
        }
        for (Index r = begin; r < end; ++r) {
          const Rotation<T> angles = rotation_at(table, rotates, rotates ? positions(r) : 0);
          Kokkos::parallel_for(
              Kokkos::TeamThreadRange(team, heads_to_visit(layout, in_place)), [&](const int head) {
                const HeadPlace place = place_of(layout, head);
                const bool is_value = place.kind == HeadKind::value;
                T* const out = &dfused(r, head * d);
                const T* const first = &dpacked(place.block * rows + r, place.slot * d);
                if (norms) {  // more streams than hardware prefetchers keep up with, and sums between them
                  math::prefetch_row(first + row_stride(dpacked), d);
                  math::prefetch_row(out + row_stride(dfused), d);
                  if (!is_value) math::prefetch_row(&fused(r, head * d) + row_stride(fused), d);
                }
                const T* const gradient = sum_copies(team, d, first, place.copies, copy_stride, out);
                backward_head(team, d, gradient, is_value ? Rotation<T>{nullptr, nullptr} : angles, out);
                if (is_value || !norms) return;
                const T* const x = &fused(r, head * d);
                const T* const weight =
                    place.kind == HeadKind::query ? norm.q_weight.data() : norm.k_weight.data();
                norm_backward_head(team, d, x, weight, head_inverse_rms(team, x, d, norm.epsilon), out,
                                   &partial(block, head * d));
              });
        }
        if (!norms) return;
        team.team_barrier();
        A *const q_sum = &partial(block, 0), *const k_sum = q_sum + q_size;
        for (int head = 1; head < layout.total_q_heads; ++head)
          math::for_columns(team, d, [=](const Index i) { q_sum[i] += q_sum[head * d + i]; });
        for (int head = 1; head < layout.total_kv_heads; ++head)
          math::for_columns(team, d, [=](const Index i) { k_sum[i] += k_sum[head * d + i]; });
      });
  if (!norms) return;
  math::add_partial_sums<A>(exec, columns_of(partial, 0, d), norm_gradient.q_weight);
  math::add_partial_sums<A>(exec, columns_of(partial, q_size, q_size + d), norm_gradient.k_weight);
}

#define MINISP_INSTANTIATE(T)                                                                            \
  template RopeTable<T> make_rope_table<T>(const std::vector<double>&, Index);                           \
  template void rope_pack_forward<T>(const Exec&, const HeadLayout&, const Matrix<const T>&,             \
                                     const Vector<const int>&, const RopeTable<T>&, const HeadNorm<T>&,  \
                                     const Matrix<T>&);                                                  \
  template void rope_pack_backward<T>(const Exec&, const HeadLayout&, const Matrix<const T>&,            \
                                      const Vector<const int>&, const RopeTable<T>&, const HeadNorm<T>&, \
                                      const Matrix<const T>&, const Matrix<T>&, const HeadNormGradient<T>&);
MINISP_INSTANTIATE(bfloat16)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::model
