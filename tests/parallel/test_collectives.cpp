// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Collectives on 1 to 8 ranks, with views handed to MPI and by way of host memory.
#include "comm/agree.hpp"
#include "comm/all_gather.hpp"
#include "comm/all_reduce.hpp"
#include "comm/all_to_all.hpp"
#include "comm/broadcast.hpp"
#include "comm/mpi_call.hpp"
#include "comm/scalars.hpp"
#include "comm/two_stage_gather.hpp"
#include "util/error.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <gmock/gmock.h>
#include <new>
#include <numeric>

namespace minisp::comm {
namespace {

template <class T>
Vector<T> to_view(const std::vector<T>& values) {
  const Vector<T> view("view", static_cast<Index>(values.size()));
  const auto host = Kokkos::create_mirror_view(view);
  std::copy(values.begin(), values.end(), host.data());
  Kokkos::deep_copy(view, host);
  return view;
}

template <class T>
std::vector<T> to_vector(const Vector<T>& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return std::vector<T>(host.data(), host.data() + host.size());
}

class Collectives : public testing::TestWithParam<Staging> {
 protected:
  const Communicator world = Communicator::world({.staging = GetParam(), .delays = {}, .node = {}});
  const int rank = world.rank();
  const int ranks = world.size();
  const Exec exec = Exec();

  /// The only line of the ledger.
  LedgerEntry entry() const {
    EXPECT_EQ(world.ledger().entries().size(), 1u);
    return world.ledger().entries().front();
  }
};

INSTANTIATE_TEST_SUITE_P(Staging, Collectives, testing::Values(Staging::probe, Staging::always),
                         [](const auto& instance) {
                           return instance.param == Staging::probe ? "direct" : "staged";
                         });

/// The element that `from` sends to `to` as its i-th.
template <class T>
T element(int from, int to, Index i) {
  return static_cast<T>((from * 31 + to * 7 + i) % 120);
}

template <class T>
void expect_all_to_all(const Communicator& world, const Exec& exec, Index block) {
  std::vector<T> send, expected;
  for (int other = 0; other < world.size(); ++other)
    for (Index i = 0; i < block; ++i) {
      send.push_back(element<T>(world.rank(), other, i));
      expected.push_back(element<T>(other, world.rank(), i));
    }
  const auto source = to_view(send);
  const Vector<T> target("target", source.extent(0)), back("back", source.extent(0));
  all_to_all(world, exec, source, target);
  EXPECT_EQ(to_vector(target), expected);
  all_to_all(world, exec, target, back);  // its own inverse
  EXPECT_EQ(to_vector(back), send);
}

TEST_P(Collectives, AllToAllOfEveryType) {
  for (const Index block : {0, 1, 3, 1000}) {
    expect_all_to_all<double>(world, exec, block);
    expect_all_to_all<float>(world, exec, block);
    expect_all_to_all<int>(world, exec, block);
    expect_all_to_all<Index>(world, exec, block);
    expect_all_to_all<std::byte>(world, exec, block);
  }
}

TEST_P(Collectives, AllToAllCountsWhatItSends) {
  const Matrix<float> a("a", 3 * ranks, 5), b("b", 3 * ranks, 5);
  all_to_all(world, exec, a, b);
  all_to_all(world, exec, a, b);
  EXPECT_EQ(entry().collective, "all_to_all");
  EXPECT_EQ(entry().calls, 2);
  EXPECT_EQ(entry().bytes_on_node, 2 * 3 * 5 * 4 * (ranks - 1));
  EXPECT_EQ(entry().bytes_off_node, 0);
  EXPECT_EQ(entry().peers_on_node, ranks - 1);
}

/// <A x, y> = <x, A y>: an all-to-all of equal blocks is its own transpose. Small whole numbers, so that the
/// sums are exact.
TEST_P(Collectives, AllToAllIsItsOwnTranspose) {
  const Index n = 16 * ranks;
  std::vector<double> x, y;
  for (Index i = 0; i < n; ++i) {
    x.push_back(static_cast<double>((rank * 37 + i * 11) % 101));
    y.push_back(static_cast<double>((rank * 53 + i * 29) % 97));
  }
  const Vector<double> ax("ax", n), ay("ay", n);
  all_to_all(world, exec, to_view(x), ax);
  all_to_all(world, exec, to_view(y), ay);
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  EXPECT_EQ(sum(world, dot(to_vector(ax), y)), sum(world, dot(x, to_vector(ay))));
}

TEST_P(Collectives, StartedAllToAll) {
  const Index n = 1000 * ranks;
  const Vector<int> first("first", n), second("second", n);
  Request one, two;
  {
    const Vector<int> send("send", n);  // kept alive by the requests alone
    Kokkos::deep_copy(send, rank + 1);
    one = start_all_to_all(world, exec, send, first);
    two = start_all_to_all(world, exec, send, second);
  }
  two.wait();
  two.wait();            // nothing happens
  one = std::move(two);  // waits for what it held
  std::vector<int> expected;
  for (int other = 0; other < ranks; ++other) expected.insert(expected.end(), 1000, other + 1);
  EXPECT_EQ(to_vector(first), expected);
  EXPECT_EQ(to_vector(second), expected);
  Kokkos::deep_copy(second, 0);
  {
    const auto request = start_all_to_all(world, exec, first, second);  // waited for by the destructor
  }
  EXPECT_EQ(to_vector(second)[static_cast<std::size_t>(n - 1)], rank + 1);
  EXPECT_EQ(entry().calls, 3);
}

/// Values whose sum depends on the order of summation.
template <class T>
std::vector<T> contribution(int rank, Index n) {
  std::vector<T> values;
  for (Index i = 0; i < n; ++i) {
    const T scale = (rank + i) % 3 == 0 ? T(1e6) : T(1);
    values.push_back(scale * static_cast<T>((rank * 7919 + i * 104729) % 1013) / T(997) *
                     ((rank + i) % 2 ? 1 : -1));
  }
  return values;
}

template <class T>
void expect_all_reduce(const Communicator& world, const Exec& exec, Index n) {
  const int ranks = world.size();
  std::vector<T> expected = contribution<T>(0, n), other_order = contribution<T>(ranks - 1, n);
  for (int r = 1; r < ranks; ++r) {
    const auto next = contribution<T>(r, n), last = contribution<T>(ranks - 1 - r, n);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] += next[i];
      other_order[i] += last[i];
    }
  }
  if (ranks > 2 && n > 100) {
    EXPECT_NE(expected, other_order);
  }  // else the test could not tell
  world.ledger().reset();
  for (int repetition = 0; repetition < 2; ++repetition) {
    const auto data = to_view(contribution<T>(world.rank(), n));
    all_reduce_sum(world, exec, data);
    const auto result = to_vector(data);
    ASSERT_EQ(result.size(), expected.size());
    // == of floating-point vectors would also accept -0 for 0.
    const bool same = n == 0 || std::memcmp(result.data(), expected.data(), result.size() * sizeof(T)) == 0;
    EXPECT_TRUE(same) << n << " elements";
  }
  const auto& entry = world.ledger().entries().front();
  EXPECT_EQ(entry.calls, 2);
  const Index chunk = (n + ranks - 1) / ranks;
  EXPECT_EQ(entry.bytes_on_node, 2 * (2 * chunk * (ranks - 1)) * static_cast<Index>(sizeof(T)));
}

TEST_P(Collectives, AllReduceAddsInRankOrder) {
  for (const Index n : {Index{0}, Index{1}, Index{ranks - 1}, Index{ranks}, Index{ranks + 1}, Index{1000}}) {
    expect_all_reduce<double>(world, exec, n);
    expect_all_reduce<float>(world, exec, n);
  }
  const auto counts = to_view(std::vector<Index>{rank, 1, Index{1} << 40});
  all_reduce_sum(world, exec, counts);
  EXPECT_EQ(to_vector(counts),
            (std::vector<Index>{ranks * (ranks - 1) / 2, ranks, ranks * (Index{1} << 40)}));
}

TEST_P(Collectives, AllReduceInPieces) {
  const Index n = (Index{32} << 20) / 8 + 3 * ranks + 1;  // one full piece of doubles, some more, a rest
  std::vector<double> values(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = static_cast<double>(i % 1000 + rank);
  const auto data = to_view(values);
  all_reduce_sum(world, exec, data);
  const auto result = to_vector(data);
  Index wrong = 0;
  for (Index i = 0; i < n; ++i)
    wrong += result[static_cast<std::size_t>(i)] !=
             static_cast<double>(ranks * (i % 1000) + ranks * (ranks - 1) / 2);
  EXPECT_EQ(wrong, 0);
}

TEST_P(Collectives, AllGatherAndBroadcast) {
  const auto own = to_view(std::vector<int>{rank, 10 * rank});
  const Vector<int> all("all", 2 * ranks);
  all_gather(world, exec, own, all);
  const auto gathered = to_vector(all);
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(gathered[static_cast<std::size_t>(2 * r)], r);
    EXPECT_EQ(gathered[static_cast<std::size_t>(2 * r + 1)], 10 * r);
  }
  EXPECT_EQ(entry().bytes_on_node, 8 * (ranks - 1));
  world.ledger().reset();

  const int root = ranks - 1;
  broadcast(world, exec, own, root);
  EXPECT_EQ(to_vector(own), (std::vector<int>{root, 10 * root}));
  EXPECT_EQ(entry().bytes_on_node, rank == root ? 8 * (ranks - 1) : 0);
}

/// Two nodes and more, filled one after the other, dealt out in turn, and uneven: which of them gather in two
/// stages, and that blocks of any size end where they belong.
TEST_P(Collectives, AllGatherOverNodes) {
  for (int width = 1; width <= ranks; ++width)
    for (const bool dealt_out : {false, true}) {
      const int nodes = (ranks + width - 1) / width;
      const auto node_of = [&](int r) { return dealt_out ? r % nodes : r / width; };
      std::vector<int> node_of_rank;
      for (int r = 0; r < ranks; ++r) node_of_rank.push_back(node_of(r));
      EXPECT_EQ(TwoStageGather::make(MPI_COMM_WORLD, node_of_rank) != nullptr,
                (dealt_out || ranks % width == 0) && ranks % nodes == 0 && nodes > 1 && nodes < ranks)
          << ranks << " ranks, " << width << " a node, dealt out " << dealt_out;
      const auto several = Communicator::world({.staging = GetParam(), .delays = {}, .node = node_of(rank)});
      ASSERT_EQ(several.nodes(), node_of_rank);
      for (const Index block : {0, 1, 3, 1000}) {
        std::vector<std::int16_t> own, expected;
        for (Index i = 0; i < block; ++i) own.push_back(element<std::int16_t>(rank, 0, i));
        for (int r = 0; r < ranks; ++r)
          for (Index i = 0; i < block; ++i) expected.push_back(element<std::int16_t>(r, 0, i));
        const Vector<std::int16_t> all("all", block * ranks);
        all_gather(several, exec, to_view(own), all);
        EXPECT_EQ(to_vector(all), expected) << width << " a node, dealt out " << dealt_out << ", " << block;
      }
      EXPECT_EQ(sum(several, Index{rank}), ranks * (ranks - 1) / 2);
    }
}

TEST_P(Collectives, Scalars) {
  EXPECT_EQ(sum(world, Index{rank} + (Index{1} << 50)), ranks * (Index{1} << 50) + ranks * (ranks - 1) / 2);
  EXPECT_EQ(maximum(world, Index{-rank}), 0);
  EXPECT_EQ(minimum(world, Index{-rank}), 1 - ranks);
  EXPECT_EQ(maximum(world, 0.5 * rank), 0.5 * (ranks - 1));
  EXPECT_EQ(minimum(world, 0.5 * rank), 0.0);
  double expected = 0;
  for (int r = 0; r < ranks; ++r) expected += 0.1 * r;
  EXPECT_EQ(sum(world, 0.1 * rank), expected);  // to the last bit: in rank order
  EXPECT_EQ(entry().collective, "scalars");
  EXPECT_EQ(entry().calls, 6);
  EXPECT_EQ(entry().bytes_on_node, 6 * 8 * (ranks - 1));
}

/// The path of messages over 2^31 bytes, with a limit so low that small ones take it.
TEST(MessageType, DerivedTypesArriveWhole) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const std::size_t bytes : {16u, 17u, 32u, 1000u, 4096u}) {
    const MessageType message(bytes, 16);
    std::vector<unsigned char> send(bytes * static_cast<std::size_t>(ranks)), receive(send.size(), 0);
    for (std::size_t i = 0; i < send.size(); ++i)
      send[i] = static_cast<unsigned char>(static_cast<std::size_t>(rank) * 37 + i / bytes * 5 + i % bytes);
    check_mpi(MPI_Alltoall(send.data(), message.count(), message.type(), receive.data(), message.count(),
                           message.type(), MPI_COMM_WORLD),
              "MPI_Alltoall");
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < receive.size(); ++i)
      wrong += receive[i] !=
               static_cast<unsigned char>(i / bytes * 37 + static_cast<std::size_t>(rank) * 5 + i % bytes);
    EXPECT_EQ(wrong, 0u) << bytes;
  }
}

TEST(Split, EveryGroupingAndOrder) {
  const auto world = Communicator::world();
  const int ranks = world.size(), rank = world.rank();
  for (int groups = 1; groups <= ranks; ++groups) {
    if (ranks % groups != 0) continue;
    const int size = ranks / groups;
    for (const bool reversed : {false, true}) {
      const auto part = world.split(rank / size, reversed ? -rank : rank, "sequence");
      EXPECT_EQ(part.size(), size);
      EXPECT_EQ(part.rank(), reversed ? size - 1 - rank % size : rank % size);
      EXPECT_EQ(part.name(), "sequence");
      EXPECT_EQ(sum(part, Index{rank}), size * (rank / size * size) + size * (size - 1) / 2);
    }
  }
  EXPECT_EQ(world.ledger().entries().size(), 1u);  // the parts count in the world's ledger
}

TEST(Split, NodesAreInherited) {
  const int world_ranks = Communicator::world().size(), world_rank = Communicator::world().rank();
  const auto world =
      Communicator::world({.staging = Staging::probe, .delays = {}, .node = 100 - world_rank % 2});
  EXPECT_EQ(world.topology().nodes(), std::min(2, world_ranks));
  for (int r = 0; r < world_ranks; ++r) EXPECT_EQ(world.nodes()[static_cast<std::size_t>(r)], r % 2);
  const auto half = world.split(world_rank % 2, world_rank, "node");
  const auto reversed = world.split(0, -world_rank, "reversed");
  for (int r = 0; r < half.size(); ++r) EXPECT_TRUE(half.on_this_node(r));
  for (int r = 0; r < world_ranks; ++r)
    EXPECT_EQ(reversed.on_this_node(r), (world_ranks - 1 - r) % 2 == world_rank % 2);

  const Vector<float> a("a", world_ranks), b("b", world_ranks);
  all_to_all(reversed, Exec(), a, b);
  const auto& entry = world.ledger().entries().front();
  const int here = (world_ranks + 1 - world_rank % 2) / 2;  // ranks on this node
  EXPECT_EQ(entry.peers_on_node, here - 1);
  EXPECT_EQ(entry.bytes_on_node, 4 * (here - 1));
  EXPECT_EQ(entry.bytes_off_node, 4 * (world_ranks - here));
}

TEST(Topology, OneHostIsOneNode) {
  const auto world = Communicator::world();
  EXPECT_EQ(world.topology().nodes(), 1);
  EXPECT_FALSE(world.topology().host_of_node[0].empty());
  EXPECT_EQ(world.topology().node_of_world_rank, std::vector<int>(static_cast<std::size_t>(world.size()), 0));
}

TEST(Guard, EveryRankThrowsTheErrorOfTheLowestThatFails) {
  const auto world = Communicator::world();
  for (int failing = 0; failing < world.size(); ++failing) {
    try {
      collective_guard(world, [&] {
        if (world.rank() >= failing)
          throw input_error("rank " + std::to_string(world.rank()) + " fails", "here", "Mend it");
      });
      ADD_FAILURE() << "no error on rank " << world.rank();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_EQ(error.problem(), "rank " + std::to_string(failing) + " fails");
      EXPECT_EQ(error.where(), "here");
      EXPECT_EQ(error.remedy(), "Mend it");
      EXPECT_TRUE(error.agreed());
    }
  }
  EXPECT_EQ(collective_guard(world, [] { return 7; }), 7);  // and the ranks still agree afterwards
  EXPECT_TRUE(world.ledger().entries().empty());
}

TEST(Guard, OneRankAlone) {
  const auto world = Communicator::world();
  try {
    collective_guard(world, [&]() -> int {
      if (world.rank() == world.size() - 1) throw std::bad_alloc();
      return 1;
    });
    ADD_FAILURE() << "no error on rank " << world.rank();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_EQ(error.problem(), "out of memory");
  }
}

TEST(Guard, GuardsNest) {
  const auto world = Communicator::world();
  EXPECT_THROW(collective_guard(world,
                                [&] {
                                  collective_guard(world, [&] {
                                    if (world.rank() == 0) throw input_error("inner", "here", "");
                                  });
                                }),
               Error);
}

}  // namespace
}  // namespace minisp::comm
