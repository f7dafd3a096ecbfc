#include "server/lifecycle/memory_watch.h"

#include <atomic>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/telemetry/process_statistics.h"
#include "tests/eventually.h"

namespace chorale {
namespace {

constexpr int64_t kLimit = 1000;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(MemoryPressureTest, BelowNineTenthsNothingIsDone) {
  MemoryPressure pressure(kLimit);
  const MemoryPressure::Advice advice = pressure.Next(900, At(0));
  EXPECT_FALSE(advice.high || advice.trim || advice.end_busiest || advice.give_up);
}

TEST(MemoryPressureTest, EndsConnectionsOnceTrimmingHasNotHelped) {
  MemoryPressure pressure(kLimit);
  const MemoryPressure::Advice first = pressure.Next(901, At(0));
  EXPECT_TRUE(first.high && first.trim);
  EXPECT_FALSE(first.end_busiest || first.give_up);
  const MemoryPressure::Advice second = pressure.Next(901, At(0.05));
  EXPECT_TRUE(second.high && second.end_busiest);
  EXPECT_FALSE(second.trim || second.give_up);
  EXPECT_TRUE(pressure.Next(950, At(1)).trim);
}

// Clients may send until memory is short, and then nothing: messages that never end.
TEST(MemoryPressureTest, EndsThoseThatHoldMemoryWhenThoseThatSendWereNotIt) {
  MemoryPressure pressure(kLimit);
  pressure.Next(950, At(0));
  EXPECT_TRUE(pressure.Next(950, At(1.9)).lately);
  const MemoryPressure::Advice later = pressure.Next(950, At(2));
  EXPECT_TRUE(later.end_busiest);
  EXPECT_FALSE(later.lately);
}

TEST(MemoryPressureTest, ItIsOverAsSoonAsTheMemoryIsBack) {
  MemoryPressure pressure(kLimit);
  pressure.Next(2000, At(0));
  pressure.Next(2000, At(9));
  EXPECT_FALSE(pressure.Next(800, At(9.5)).high);
  // The next one has its own time.
  EXPECT_FALSE(pressure.Next(2000, At(10)).end_busiest);
  EXPECT_FALSE(pressure.Next(2000, At(19.9)).give_up);
  EXPECT_TRUE(pressure.Next(2000, At(20)).give_up);
}

// Counts what a watch asks for.
struct Counts {
  std::atomic<bool> paused{false};
  std::atomic<int> marks{0};
  std::atomic<int> ends{0};
  std::atomic<int> given_up{0};

  MemoryWatch::Handlers Handlers() {
    return {.pause_accepting = [this](bool pause) { paused = pause; },
            .mark_traffic = [this] { ++marks; },
            .end_busiest = [this](bool /*lately*/) -> int64_t { return ++ends; },
            .give_up = [this] { ++given_up; }};
  }
};

TEST(MemoryWatchTest, SeesTheMemoryOfTheProcess) {
  Counts counts;
  const MemoryWatch watch(ResidentBytes() / 2, counts.Handlers());
  EXPECT_TRUE(Eventually([&] { return counts.paused && counts.ends > 3 && counts.marks > 0; }));
  EXPECT_EQ(counts.given_up, 0);
}

TEST(MemoryWatchTest, LeavesAProcessWithinItsLimitAlone) {
  Counts counts;
  const MemoryWatch watch(int64_t{1} << 50, counts.Handlers());
  EXPECT_TRUE(Eventually([&] { return counts.marks > 1; }));
  EXPECT_FALSE(counts.paused);
  EXPECT_EQ(counts.ends, 0);
}

}  // namespace
}  // namespace chorale
