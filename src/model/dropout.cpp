// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/dropout.hpp"

#include "math/random.hpp"
#include "math/row_reduce.hpp"

namespace minisp::model {

namespace {
// Streams of random numbers that nothing else uses: tensors' initial values have the first ones.
constexpr std::uint64_t first_stream = std::uint64_t{1} << 32;
constexpr Index words = 4;  // elements that one block of random bits decides over
}  // namespace

template <class T>
void apply_dropout(const Exec& exec, const Dropout& dropout, Index layer, Branch branch,
                   const Matrix<const T>& x, const Matrix<T>& y) {
  using A = Accumulate<T>;
  const Index columns = static_cast<Index>(x.extent(1)), blocks = (columns + words - 1) / words;
  const auto threshold = static_cast<std::uint32_t>(dropout.probability * 0x1p32);
  const A factor = static_cast<A>(1 / (1 - static_cast<double>(threshold) * 0x1p-32));
  const std::uint64_t seed = dropout.seed;
  const std::uint64_t stream =
      first_stream + static_cast<std::uint64_t>(2 * layer + (branch == Branch::mlp ? 1 : 0));
  const auto tokens = dropout.tokens;
  const Index first_token = dropout.first_token;
  Kokkos::parallel_for(
      "minisp::dropout", math::row_teams(exec, static_cast<Index>(x.extent(0))),
      KOKKOS_LAMBDA(const TeamMember& team) {
        const Index r = static_cast<Index>(team.league_rank());
        const T* const in = &x(r, 0);
        T* const out = &y(r, 0);
        const Index first_block = (first_token + tokens(r)) * blocks;
        math::for_columns(team, blocks, [=](const Index block) {
          const auto random =
              math::random_block(seed, stream, static_cast<std::uint64_t>(first_block + block));
          const Index begin = block * words, count = columns - begin < words ? columns - begin : words;
          for (Index i = 0; i < count; ++i)
            out[begin + i] =
                random.word[i] < threshold ? T(0) : static_cast<T>(static_cast<A>(in[begin + i]) * factor);
        });
      });
}

#define MINISP_INSTANTIATE(T)                                                                        \
  template void apply_dropout<T>(const Exec&, const Dropout&, Index, Branch, const Matrix<const T>&, \
                                 const Matrix<T>&);
MINISP_INSTANTIATE(bfloat16)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::model
