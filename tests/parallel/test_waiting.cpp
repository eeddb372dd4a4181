// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Own work, waiting and wire of collectives apart; clocks. Machines that run this share their cores, so
// delays are tens of milliseconds where a transfer takes a tenth of one, and what is asked for are shares of
// them: a rank that the machine keeps back by half a delay in all passes.
#include "comm/all_gather.hpp"
#include "comm/all_reduce.hpp"
#include "comm/all_to_all.hpp"
#include "comm/broadcast.hpp"
#include "comm/scalars.hpp"
#include "comm/waiting.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

namespace minisp::comm {
namespace {

constexpr double delay = 0.05;
constexpr int calls = 5;
constexpr double all_delays = calls * delay;

void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

struct Division {
  Waiting waiting;
  std::vector<LedgerEntry> entries;

  double wait() const { return std::accumulate(waiting.wait.begin(), waiting.wait.end(), 0.0); }
  double wire() const { return std::accumulate(waiting.wire.begin(), waiting.wire.end(), 0.0); }
};

/// Runs `body` `calls` times on a communicator and divides what it does there.
Division divide(const Communicator& communicator, const Communicator& world,
                const std::function<void()>& body) {
  const auto first = compare_clocks(world);
  world.ledger().record_transfers(calls);
  barrier(world);
  world.ledger().reset();
  for (int call = 0; call < calls; ++call) body();
  const Ledger ledger = world.ledger();
  world.ledger().stop_recording();
  const CommonClock clock(first, compare_clocks(world));
  Division division;
  add_waiting(communicator, ledger, clock, world.rank(), world.size(), division.waiting);
  division.entries = ledger.entries();
  return division;
}

class Apart : public testing::Test {
 protected:
  const Communicator world = Communicator::world();
  const int ranks = world.size();
  const Exec exec = Exec();
  const Vector<double> send = Vector<double>("send", 16 * ranks);
  const Vector<double> receive = Vector<double>("receive", 16 * ranks);

  /// A slow rank that comes last to each of `calls` collectives.
  void expect_waiting_for(int slow, const Division& division) const {
    if (world.rank() == slow) {
      EXPECT_LT(division.wait(), 0.5 * all_delays);
    } else {
      EXPECT_GT(division.wait(), 0.8 * all_delays);
      EXPECT_GT(division.waiting.waited_for[static_cast<std::size_t>(slow)], 0.5 * all_delays);
    }
    EXPECT_LT(division.wire(), 0.5 * all_delays);
  }
};

TEST_F(Apart, OthersWaitForASlowRank) {
  if (ranks == 1) GTEST_SKIP() << "nobody waits";
  const int slow = ranks - 1;
  expect_waiting_for(slow, divide(world, world, [&] {
                       if (world.rank() == slow) sleep(delay);
                       all_to_all<double>(world, exec, send, receive);
                     }));
}

TEST_F(Apart, ASlowLinkIsWire) {
  if (ranks == 1) GTEST_SKIP() << "there is no link";
  const auto slow = world.with_slow_link({.rank = 0, .seconds = delay});
  const auto division = divide(slow, slow, [&] { all_to_all<double>(slow, exec, send, receive); });
  EXPECT_GT(division.wire(), 0.8 * all_delays);
  EXPECT_LT(division.wait(), 0.5 * all_delays);
}

TEST_F(Apart, ALinkThatIsElsewhereDelaysNobody) {
  if (ranks < 4 || ranks % 2 != 0) GTEST_SKIP() << "needs two groups";
  const auto slow = world.with_slow_link({.rank = 0, .seconds = delay});
  const auto half = slow.split(slow.rank() % 2, slow.rank(), "half");
  const Vector<double> part("part", half.size()), other("other", half.size());
  const auto division = divide(half, slow, [&] { all_to_all<double>(half, exec, part, other); });
  if (slow.rank() % 2 == 0) {
    EXPECT_GT(division.wire(), 0.8 * all_delays);
  } else {
    EXPECT_LT(division.wire(), 0.5 * all_delays);
  }
}

TEST_F(Apart, AStartedCollectiveCountsWhereItBlocks) {
  if (ranks == 1) GTEST_SKIP() << "nobody waits";
  const Vector<double> block("block", 16), all("all", 16 * ranks);
  // The last rank starts late: the others are blocked in wait() until it does.
  expect_waiting_for(ranks - 1, divide(world, world, [&] {
                       if (world.rank() == ranks - 1) sleep(delay);
                       auto request = start_all_gather<double>(world, exec, block, all);
                       request.wait();
                     }));
}

TEST_F(Apart, WorkInBetweenHidesASlowLink) {
  if (ranks == 1) GTEST_SKIP() << "there is no link";
  const auto slow = world.with_slow_link({.rank = 0, .seconds = delay});
  const Vector<double> block("block", 16), all("all", 16 * ranks);
  const auto run = [&](double work) {
    return divide(slow, slow, [&] {
      auto request = start_all_gather<double>(slow, exec, block, all);
      sleep(work);
      request.wait();
    });
  };
  const double seen = run(0).wire();
  EXPECT_GT(seen, 0.5 * all_delays);  // a rank that starts later by chance has less of the delay left to see
  EXPECT_LT(run(delay).wire(), 0.5 * seen);
}

/// What the parts are made of: seconds = own + wait + wire, of every line.
TEST_F(Apart, PartsAddUpToTheWhole) {
  const Vector<double> data("data", 100001);
  const Vector<double> block("block", 16), all("all", 16 * ranks);
  const auto division = divide(world, world, [&] {
    all_reduce_sum(world, exec, data);
    broadcast(world, exec, send, 0);
    sum(world, 1.0);
    auto request = start_all_gather<double>(world, exec, block, all);
    request.wait();
  });
  ASSERT_EQ(division.entries.size(), 4u);
  for (std::size_t i = 0; i < division.entries.size(); ++i) {
    const auto& entry = division.entries[i];
    EXPECT_EQ(entry.calls, calls);
    const double own = entry.seconds - entry.transfer_seconds;
    EXPECT_GE(own, 0) << entry.collective;
    // The clock that is corrected for drift runs some parts in a thousand faster or slower, at most.
    EXPECT_NEAR(own + division.waiting.wait[i] + division.waiting.wire[i], entry.seconds,
                0.02 * entry.seconds + 1e-9)
        << entry.collective;
  }
  EXPECT_GT(division.entries[0].seconds, division.entries[0].transfer_seconds);  // the sums of the all-reduce
}

/// Receivers of a broadcast that come late hold nobody up.
TEST_F(Apart, NobodyWaitsForAReceiver) {
  if (ranks < 3) GTEST_SKIP() << "needs two receivers";
  const auto division = divide(world, world, [&] {
    barrier(world);
    if (world.rank() == ranks - 1) sleep(delay);
    broadcast(world, exec, send, 0);
  });
  ASSERT_EQ(division.entries[1].collective, "broadcast");
  EXPECT_LT(division.waiting.wait[1], 0.5 * all_delays);
}

TEST_F(Apart, NothingIsRememberedUnlessAsked) {
  sum(world, 1.0);
  EXPECT_TRUE(world.ledger().transfers(world.number()).empty());
  world.ledger().record_transfers(1);
  sum(world, 1.0);
  EXPECT_EQ(world.ledger().transfers(world.number()).size(), 1u);
  world.ledger().reset();
  EXPECT_TRUE(world.ledger().transfers(world.number()).empty());
}

/// The ranks of this test share a clock, so the truth is known: that offset which they pretend.
TEST(Clocks, OffsetsAreFoundWithinTheError) {
  const auto world = Communicator::world();
  const double offset = 1000.0 * world.rank();
  const auto reading = compare_clocks(world, 32, [&] { return steady_seconds() - offset; });
  EXPECT_NEAR(reading.offset, offset, reading.error + 1e-9);
  EXPECT_LT(reading.error, 0.02);
  EXPECT_TRUE(world.ledger().entries().empty());
}

TEST(Clocks, DriftIsTakenOut) {
  const auto world = Communicator::world();
  const double rate = 1 + 0.01 * world.rank(), start = steady_seconds();
  const auto slow_at = [&](double seconds) { return start + (seconds - start) / rate; };
  const auto slow = [&] { return slow_at(steady_seconds()); };
  const auto first = compare_clocks(world, 32, slow);
  sleep(0.1);
  const double truth = steady_seconds();
  sleep(0.1);
  const CommonClock clock(first, compare_clocks(world, 32, slow));
  // A clock that is off by a part in a hundred has an offset of its own in each round trip, far below the
  // error.
  EXPECT_NEAR(clock(slow_at(truth)), truth, clock.error() + 1e-5);
  EXPECT_GE(clock.drift(), 0.5 * 0.2 * (rate - 1));
}

TEST(Clocks, OneRankIsItsOwnClock) {
  const CommonClock clock;
  EXPECT_EQ(clock(12.5), 12.5);
  const auto self = Communicator::self();
  EXPECT_EQ(compare_clocks(self).offset, 0);
}

}  // namespace
}  // namespace minisp::comm
