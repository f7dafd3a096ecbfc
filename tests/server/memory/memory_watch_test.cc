#include "server/memory/memory_watch.h"

#include <atomic>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/telemetry/process_statistics.h"
#include "tests/support/eventually.h"
#include "tests/support/skippable_clock.h"

namespace chorale {
namespace {

constexpr MemoryLimit kLimit = {1000};

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(MemoryPressureTest, BelowNineTenthsNothingIsDone) {
  MemoryPressure pressure;
  const MemoryPressure::Advice advice = pressure.Next(900, kLimit, At(0));
  EXPECT_FALSE(advice.high || advice.trim || advice.end_busiest || advice.give_up);
}

TEST(MemoryPressureTest, EndsConnectionsOnceTrimmingHasNotHelped) {
  MemoryPressure pressure;
  const MemoryPressure::Advice first = pressure.Next(901, kLimit, At(0));
  EXPECT_TRUE(first.high && first.trim);
  EXPECT_FALSE(first.end_busiest || first.give_up);
  const MemoryPressure::Advice second = pressure.Next(901, kLimit, At(0.05));
  EXPECT_TRUE(second.high && second.end_busiest);
  EXPECT_FALSE(second.trim || second.give_up);
  EXPECT_TRUE(pressure.Next(950, kLimit, At(1)).trim);
}

// Clients may send until memory is short, and then nothing: messages that never end.
TEST(MemoryPressureTest, EndsThoseThatHoldMemoryWhenThoseThatSendWereNotIt) {
  MemoryPressure pressure;
  pressure.Next(950, kLimit, At(0));
  EXPECT_TRUE(pressure.Next(950, kLimit, At(1.9)).lately);
  const MemoryPressure::Advice later = pressure.Next(950, kLimit, At(2));
  EXPECT_TRUE(later.end_busiest);
  EXPECT_FALSE(later.lately);
}

TEST(MemoryPressureTest, ItIsOverAsSoonAsTheMemoryIsBack) {
  MemoryPressure pressure;
  pressure.Next(2000, kLimit, At(0));
  pressure.Next(2000, kLimit, At(9));
  EXPECT_FALSE(pressure.Next(800, kLimit, At(9.5)).high);
  // The next one has its own time.
  EXPECT_FALSE(pressure.Next(2000, kLimit, At(10)).end_busiest);
  EXPECT_FALSE(pressure.Next(2000, kLimit, At(19.9)).give_up);
  EXPECT_TRUE(pressure.Next(2000, kLimit, At(20)).give_up);
}

TEST(MemoryPressureTest, TheLimitMayChange) {
  MemoryPressure pressure;
  EXPECT_FALSE(pressure.Next(5000, {0}, At(0)).high);
  EXPECT_TRUE(pressure.Next(5000, {5000}, At(1)).high);
  EXPECT_FALSE(pressure.Next(5000, {6000}, At(2)).high);
}

// Counts what a watch asks for.
struct Counts {
  std::atomic<bool> paused{false};
  std::atomic<int> marks{0};
  std::atomic<int> ends{0};
  std::atomic<int> given_up{0};
  std::atomic<int> raised{0};

  MemoryWatch::Handlers Handlers(int64_t limit) {
    return {.limit = [limit] { return MemoryLimit{limit}; },
            .pause_accepting = [this](bool pause) { paused = pause; },
            .each_second = [this] { ++marks; },
            .end_busiest = [this](bool /*lately*/) -> int64_t { return ++ends; },
            .give_up = [this] { ++given_up; },
            .raise_limit = [this](int64_t /*resident_bytes*/) { ++raised; }};
  }
};

TEST(MemoryWatchTest, SeesTheMemoryOfTheProcess) {
  Counts counts;
  const MemoryWatch watch(Clock::Real(), counts.Handlers(ResidentBytes() / 2));
  EXPECT_TRUE(Eventually([&] { return counts.paused && counts.ends > 3 && counts.marks > 0; }));
  EXPECT_EQ(counts.given_up, 0);
}

TEST(MemoryWatchTest, LeavesAProcessWithinItsLimitAlone) {
  Counts counts;
  SkippableClock clock;
  const MemoryWatch watch(&clock, counts.Handlers(int64_t{1} << 50));
  EXPECT_TRUE(Eventually([&] {
    clock.Skip(absl::Seconds(1));
    return counts.marks > 1;
  }));
  EXPECT_FALSE(counts.paused);
  EXPECT_EQ(counts.ends, 0);
}

}  // namespace
}  // namespace chorale
