// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "util/error.hpp"
#include "util/memory_tracker.hpp"
#include "util/phase_timers.hpp"
#include "util/views.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace minisp {
namespace {

void wait_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

TEST(PhaseTimers, AnInnerPhaseStopsTheOuterClock) {
  PhaseTimers timers;
  const auto start = PhaseTimers::Clock::now();
  {
    auto outer = timers.phase("outer");
    wait_ms(4);
    for (int i = 0; i < 2; ++i) {
      auto inner = timers.phase("inner");
      wait_ms(20);
    }
    wait_ms(4);
  }
  { auto outer = timers.phase("outer"); }
  const double passed = std::chrono::duration<double>(PhaseTimers::Clock::now() - start).count();
  ASSERT_EQ(timers.entries().size(), 2u);
  const auto &outer = timers.entries()[0], &inner = timers.entries()[1];
  EXPECT_EQ(outer.name, "outer");
  EXPECT_EQ(inner.name, "inner");
  EXPECT_EQ(outer.calls, 2);
  EXPECT_EQ(inner.calls, 2);
  EXPECT_GE(outer.seconds, 0.008);
  EXPECT_GE(inner.seconds, 0.040);
  // The outer clock stood while the inner ran: counted twice, the sum would be 40 ms more than what passed.
  EXPECT_DOUBLE_EQ(timers.total(), outer.seconds + inner.seconds);
  EXPECT_LE(timers.total(), passed);
}

TEST(PhaseTimers, TimeBetweenPhasesIsNobodys) {
  PhaseTimers timers;
  for (int i = 0; i < 3; ++i) {
    { auto phase = timers.phase("phase"); }
    wait_ms(30);
  }
  EXPECT_LT(timers.total(), 0.080);
}

TEST(PhaseTimers, DragMakesItsPhaseLonger) {
  PhaseTimers timers;
  timers.set_drag([](const std::string& phase, double) { return phase == "slow" ? 0.02 : 0.0; });
  {
    auto outer = timers.phase("fast");
    auto inner = timers.phase("slow");
  }
  EXPECT_LT(timers.entries()[0].seconds, timers.entries()[1].seconds);
  EXPECT_GE(timers.entries()[1].seconds, 0.02);
}

TEST(PhaseTimers, EventsAreTheCallsOfPhases) {
  PhaseTimers timers;
  { auto unseen = timers.phase("before"); }
  timers.record_events(true);
  {
    auto outer = timers.phase("outer");
    auto inner = timers.phase("inner");
  }
  { auto again = timers.phase("outer"); }
  timers.record_events(false);
  { auto unseen = timers.phase("after"); }
  const auto& events = timers.events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(timers.entries()[static_cast<std::size_t>(events[0].entry)].name, "outer");
  EXPECT_EQ(timers.entries()[static_cast<std::size_t>(events[1].entry)].name, "inner");
  EXPECT_EQ(events[0].depth, 0);
  EXPECT_EQ(events[1].depth, 1);
  EXPECT_EQ(events[2].depth, 0);
  EXPECT_LE(events[0].begin, events[1].begin);
  EXPECT_LE(events[1].end, events[0].end);
  EXPECT_LE(events[0].end, events[2].begin);
  // The inner phase's own time is its event; the outer one's is what is left.
  EXPECT_NEAR(timers.entries()[2].seconds, events[1].end - events[1].begin, 1e-6);
}

TEST(PhaseTimers, ResetKeepsTheNames) {
  PhaseTimers timers;
  {
    auto phase = timers.phase("a");
    wait_ms(1);
  }
  timers.reset();
  ASSERT_EQ(timers.entries().size(), 1u);
  EXPECT_EQ(timers.entries()[0].name, "a");
  EXPECT_EQ(timers.entries()[0].calls, 0);
  EXPECT_EQ(timers.total(), 0);
}

TEST(MemoryTracker, CountsViewsAndTheirPeak) {
  MemoryTracker::install();
  MemoryTracker::install();  // counts no view twice
  const auto before = MemoryTracker::current();
  MemoryTracker::reset_peak();
  EXPECT_EQ(MemoryTracker::peak(), before);
  constexpr std::size_t bytes = 1 << 20;
  // Kokkos adds a header of some hundred bytes to an allocation, which some versions count.
  constexpr std::size_t header = 512;
  const auto held = [&] { return MemoryTracker::current() - before; };
  {
    const Vector<double> a("a", bytes / sizeof(double));
    EXPECT_GE(held(), bytes);
    EXPECT_LE(held(), bytes + header);
    {
      const Vector<float> b("b", bytes / sizeof(float));
      const auto same = b;  // a copy of a view is no memory
      EXPECT_LE(held(), 2 * (bytes + header));
    }
    EXPECT_LE(held(), bytes + header);
  }
  EXPECT_EQ(held(), 0u);
  EXPECT_GE(MemoryTracker::peak() - before, 2 * bytes);
  MemoryTracker::reset_peak();
  EXPECT_EQ(MemoryTracker::peak(), before);
}

TEST(ProcessPeak, HoldsWhatWasTouched) {
  std::vector<char> block(64 << 20);
  std::memset(block.data(), 1, block.size());
  EXPECT_GE(process_peak_bytes(), block.size());
  EXPECT_EQ(block[12345], 1);
}

TEST(Error, SaysWhereWhatAndWhatToDo) {
  const auto error = input_error("the value is 3", "deck.toml:7: train.batch", "Take 4");
  EXPECT_STREQ(error.what(), "deck.toml:7: train.batch: the value is 3. Take 4");
  EXPECT_EQ(error.code(), ExitCode::bad_input);
  EXPECT_EQ(error.problem(), "the value is 3");
  EXPECT_STREQ(environment_error("no device", "", "").what(), "no device");
  EXPECT_EQ(environment_error("no device", "", "").code(), ExitCode::environment);
  auto agreed = error;
  EXPECT_FALSE(agreed.agreed());
  agreed.set_agreed();
  EXPECT_TRUE(agreed.agreed());
}

TEST(Views, RowsAndColumnsKeepTheirStride) {
  const Matrix<int> m("m", 4, 6);
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 6; ++c) m(r, c) = 10 * r + c;
  const auto part = columns_of(rows_of(m, 1, 3), 2, 5);
  EXPECT_EQ(part.extent(0), 2u);
  EXPECT_EQ(part.extent(1), 3u);
  EXPECT_EQ(row_stride(part), row_stride(m));
  EXPECT_EQ(part(1, 0), 22);
  EXPECT_EQ(part.data(), &m(1, 2));
}

}  // namespace
}  // namespace minisp
