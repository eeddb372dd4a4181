// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "math/gemm.hpp"

#include "math/gemm_widened.hpp"
#include "math/random.hpp"
#include "math/row_reduce.hpp"
#include "util/error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

namespace minisp::math {
namespace {

template <class T>
const T not_a_number{std::numeric_limits<Accumulate<T>>::quiet_NaN()};

/// rows x columns of normal numbers with `padding` columns of NaN behind each row.
template <class T>
Matrix<T> random_matrix(Index rows, Index columns, Index padding, std::uint64_t stream) {
  Matrix<T> whole("test", rows, columns + padding);
  const auto host = Kokkos::create_mirror_view(whole);
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns + padding; ++c)
      host(r, c) = c < columns
                       ? static_cast<T>(random_normal(3, stream, static_cast<std::uint64_t>(r * columns + c)))
                       : not_a_number<T>;
  Kokkos::deep_copy(whole, host);
  return columns_of(whole, 0, columns);
}

/// A host copy with no stride.
template <class T>
HostMatrix<T> on_host(const Matrix<T>& m) {
  Exec().fence();
  const Matrix<T> packed("test", m.extent(0), m.extent(1));
  Kokkos::deep_copy(packed, m);
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), packed);
}

/// |C - (alpha op(A) op(B) + beta C0)| / |...| with the right side in double.
template <class T>
double error_of(Op op_a, Op op_b, double alpha, const Matrix<T>& a, const Matrix<T>& b, double beta,
                const HostMatrix<T>& before, const Matrix<T>& c) {
  const auto ha = on_host(a), hb = on_host(b), hc = on_host(c);
  const Index k = static_cast<Index>(op_a == Op::none ? a.extent(1) : a.extent(0));
  double squares = 0, error = 0;
  for (Index i = 0; i < static_cast<Index>(c.extent(0)); ++i)
    for (Index j = 0; j < static_cast<Index>(c.extent(1)); ++j) {
      double sum = 0;
      for (Index l = 0; l < k; ++l)
        sum += static_cast<double>(op_a == Op::none ? ha(i, l) : ha(l, i)) *
               static_cast<double>(op_b == Op::none ? hb(l, j) : hb(j, l));
      const double expected = alpha * sum + (beta == 0 ? 0 : beta * static_cast<double>(before(i, j)));
      squares += expected * expected;
      error += (static_cast<double>(hc(i, j)) - expected) * (static_cast<double>(hc(i, j)) - expected);
    }
  return std::sqrt(error / squares);
}

template <class T>
struct GemmTest : testing::Test {};
using Types = testing::Types<bfloat16, float, double>;
TYPED_TEST_SUITE(GemmTest, Types);

TYPED_TEST(GemmTest, OperandsScalarsStridesAndShapes) {
  using T = TypeParam;
  struct Shape {
    Index m, n, k;
  };
  // A sum of k products errs by about sqrt(k) units in the last place; k <= 70 here.
  // In bf16 C is rounded once, by 2^-8 of its size at most.
  const double tolerance = is_mixed<T> ? 1.0 / 256 : 10 * std::numeric_limits<Accumulate<T>>::epsilon();
  for (const Shape s : {Shape{1, 1, 1}, {5, 7, 3}, {33, 65, 70}, {64, 1, 16}, {1, 64, 16}})
    for (const Op op_a : {Op::none, Op::transpose})
      for (const Op op_b : {Op::none, Op::transpose})
        for (const Index padding : {0, 5})
          for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {1.0, 1.0}, {-0.5, 2.0}}) {
            const auto a = op_a == Op::none ? random_matrix<T>(s.m, s.k, padding, 1)
                                            : random_matrix<T>(s.k, s.m, padding, 1);
            const auto b = op_b == Op::none ? random_matrix<T>(s.k, s.n, padding, 2)
                                            : random_matrix<T>(s.n, s.k, padding, 2);
            const auto c = random_matrix<T>(s.m, s.n, padding, 3);
            if (beta == 0) Kokkos::deep_copy(c, not_a_number<T>);
            const auto before = on_host(c);
            gemm<T>(Exec(), op_a, op_b, static_cast<Accumulate<T>>(alpha), a, b,
                    static_cast<Accumulate<T>>(beta), c);
            EXPECT_LT(error_of<T>(op_a, op_b, alpha, a, b, beta, before, c), tolerance)
                << s.m << "x" << s.n << "x" << s.k << " padding " << padding << " alpha " << alpha << " beta "
                << beta << " ops " << int(op_a) << int(op_b);
          }
}

TYPED_TEST(GemmTest, LeavesWhatLiesBetweenRowsAlone) {
  using T = TypeParam;
  const Matrix<T> whole("test", 6, 9);
  Kokkos::deep_copy(whole, T(3));
  gemm<T>(Exec(), Op::none, Op::none, Accumulate<T>(1), random_matrix<T>(6, 4, 0, 1),
          random_matrix<T>(4, 5, 0, 2), Accumulate<T>(0), columns_of(whole, 2, 7));
  const auto host = on_host(whole);
  for (Index r = 0; r < 6; ++r)
    for (const Index c : {0, 1, 7, 8}) EXPECT_EQ(static_cast<double>(host(r, c)), 3);
}

TYPED_TEST(GemmTest, EmptyProducts) {
  using T = TypeParam;
  const Matrix<T> c("test", 3, 4);
  Kokkos::deep_copy(c, T(2));
  gemm<T>(Exec(), Op::none, Op::none, Accumulate<T>(1), Matrix<T>("test", 3, 0), Matrix<T>("test", 0, 4),
          Accumulate<T>(0.5), c);
  EXPECT_EQ(static_cast<double>(on_host(c)(2, 3)), 1);
  gemm<T>(Exec(), Op::none, Op::transpose, Accumulate<T>(1), Matrix<T>("test", 3, 0), Matrix<T>("test", 4, 0),
          Accumulate<T>(0), c);
  EXPECT_EQ(static_cast<double>(on_host(c)(0, 0)), 0);
  EXPECT_NO_THROW(gemm<T>(Exec(), Op::none, Op::none, Accumulate<T>(1), Matrix<T>("test", 0, 5),
                          Matrix<T>("test", 5, 4), Accumulate<T>(0), Matrix<T>("test", 0, 4)));
}

TYPED_TEST(GemmTest, RefusesShapesThatDoNotFit) {
  using T = TypeParam;
  const auto call = [](Op op_a, Op op_b, Index m, Index n) {
    gemm<T>(Exec(), op_a, op_b, Accumulate<T>(1), Matrix<T>("test", 3, 5), Matrix<T>("test", 5, 4),
            Accumulate<T>(0), Matrix<T>("test", m, n));
  };
  EXPECT_NO_THROW(call(Op::none, Op::none, 3, 4));
  EXPECT_THROW(call(Op::transpose, Op::none, 3, 4), std::invalid_argument);
  EXPECT_THROW(call(Op::none, Op::transpose, 3, 4), std::invalid_argument);
  EXPECT_THROW(call(Op::none, Op::none, 4, 4), std::invalid_argument);
  EXPECT_THROW(call(Op::none, Op::none, 3, 5), std::invalid_argument);
}

// fp64 goes to BLAS, which would see the lower 32 bits: here a product of 8 rows.
TEST(Gemm, SizesThatBlasCannotCountAreRefused) {
  if (std::string(gemm_backend<double>()) == "cuBLAS") GTEST_SKIP() << "cuBLAS counts in 64 bits";
  const Index many = (Index(1) << 32) + 8;
  double number = 0;  // the views are larger than any memory; nothing reads them
  const auto call = [&](Index m, Index n, Index k) {
    gemm<double>(Exec(), Op::none, Op::none, 1.0, Matrix<double>(&number, m, k),
                 Matrix<double>(&number, k, n), 0.0, Matrix<double>(&number, m, n));
  };
  EXPECT_THROW(call(many, 1, 1), minisp::Error);
  EXPECT_THROW(call(1, many, 1), minisp::Error);
  EXPECT_THROW(call(1, 1, many), minisp::Error);
  EXPECT_NO_THROW(call(1, 1, 1));
}

TYPED_TEST(GemmTest, RepeatedRunsGiveTheSameBits) {
  using T = TypeParam;
  const auto a = random_matrix<T>(50, 40, 0, 1), b = random_matrix<T>(40, 60, 0, 2);
  const Matrix<T> c("test", 50, 60), d("test", 50, 60);
  gemm<T>(Exec(), Op::none, Op::none, Accumulate<T>(1), a, b, Accumulate<T>(0), c);
  gemm<T>(Exec(), Op::none, Op::none, Accumulate<T>(1), a, b, Accumulate<T>(0), d);
  const auto hc = on_host(c), hd = on_host(d);
  for (Index i = 0; i < 50; ++i)
    for (Index j = 0; j < 60; ++j) ASSERT_EQ(static_cast<double>(hc(i, j)), static_cast<double>(hd(i, j)));
}

/// bf16 by both ways, whatever the processor at hand has: C in bf16 and in fp32, sizes beyond a tile.
template <class C>
void expect_widened_product(Index m, Index n, Index k, double tolerance) {
  for (const Op op_a : {Op::none, Op::transpose})
    for (const Op op_b : {Op::none, Op::transpose})
      for (const float beta : {0.0f, 1.0f}) {
        const auto a =
            op_a == Op::none ? random_matrix<bfloat16>(m, k, 3, 1) : random_matrix<bfloat16>(k, m, 3, 1);
        const auto b =
            op_b == Op::none ? random_matrix<bfloat16>(k, n, 3, 2) : random_matrix<bfloat16>(n, k, 3, 2);
        const auto c = random_matrix<C>(m, n, 3, 3), d = random_matrix<C>(m, n, 3, 3);
        gemm_widened<bfloat16, C>(Exec(), op_a, op_b, 1, a, b, beta, c);
        gemm<bfloat16>(Exec(), op_a, op_b, 1, a, b, beta, d);
        const auto hc = on_host(c), hd = on_host(d);
        double squares = 0, error = 0;
        for (Index i = 0; i < m; ++i)
          for (Index j = 0; j < n; ++j) {
            const double x = static_cast<double>(hc(i, j)), y = static_cast<double>(hd(i, j));
            squares += y * y;
            error += (x - y) * (x - y);
          }
        EXPECT_LT(std::sqrt(error / squares), tolerance)
            << m << "x" << n << "x" << k << " ops " << int(op_a) << int(op_b);
      }
}
TEST(GemmOfBf16, BothWaysAgree) {
  if (!rows_on_host) GTEST_SKIP() << "products are widened on the host only";
  // Sums of k terms in fp32 in another order; in bf16 a sum near the middle of two numbers may go either way,
  // which happens to few elements.
  for (const auto& [m, n, k] :
       {std::tuple<Index, Index, Index>{3, 5, 7}, {530, 40, 30}, {20, 1030, 50}, {30, 20, 2100}}) {
    expect_widened_product<float>(m, n, k, 1e-5);
    expect_widened_product<bfloat16>(m, n, k, 1e-3);
  }
}

TEST(GemmOfBf16, SumsAreRoundedOnce) {
  // 256 + 1 + ... + 1 (256 ones) is 512; rounding on the way would stay at 256, whose neighbour is 258.
  const Index k = 257;
  const Matrix<bfloat16> a("test", 1, k), b("test", k, 1), c("test", 1, 1);
  Kokkos::deep_copy(a, bfloat16(1));
  Kokkos::deep_copy(b, bfloat16(1));
  const auto first = Kokkos::create_mirror_view(a);
  Kokkos::deep_copy(first, a);
  first(0, 0) = bfloat16(256);
  Kokkos::deep_copy(a, first);
  gemm<bfloat16>(Exec(), Op::none, Op::none, 1, a, b, 0, c);
  EXPECT_EQ(static_cast<float>(on_host(c)(0, 0)), 512);
  if (!rows_on_host) return;
  gemm_widened<bfloat16, bfloat16>(Exec(), Op::none, Op::none, 1, a, b, 0, c);
  EXPECT_EQ(static_cast<float>(on_host(c)(0, 0)), 512);
}

TEST(Gemm, NamesItsBackend) {
  EXPECT_FALSE(std::string(gemm_backend<float>()).empty());
  EXPECT_FALSE(std::string(gemm_backend<double>()).empty());
  // "none" is what a backend is called that require_gemm() refuses.
  const auto refused = [] {
    try {
      require_gemm<bfloat16>();
    } catch (const Error& error) {
      return error.code() == ExitCode::environment;
    }
    return false;
  };
  EXPECT_EQ(refused(), std::string(gemm_backend<bfloat16>()) == "none");
}

}  // namespace
}  // namespace minisp::math
