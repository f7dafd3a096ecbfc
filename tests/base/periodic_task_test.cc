#include "base/periodic_task.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "base/notification.h"
#include "tests/support/eventually.h"
#include "tests/support/skippable_clock.h"

namespace chorale {
namespace {

TEST(PeriodicTaskTest, RunsOncePerPeriod) {
  SkippableClock clock;
  std::atomic<int> runs = 0;
  const PeriodicTask task(&clock, absl::Hours(1), [&] { ++runs; });
  EXPECT_EQ(runs, 0);
  for (int expected = 1; expected <= 3; ++expected) {
    // A skip before the thread has begun its next wait is lost, so there may be several.
    EXPECT_TRUE(Eventually([&] {
      if (runs < expected) clock.Skip(absl::Hours(1));
      return runs >= expected;
    }));
  }
}

TEST(PeriodicTaskTest, EndsWithoutWaitingForThePeriod) {
  std::atomic<int> runs = 0;
  {
    const PeriodicTask task(Clock::Real(), absl::Hours(1000), [&] { ++runs; });
  }
  EXPECT_EQ(runs, 0);
}

TEST(PeriodicTaskTest, TheDestructorWaitsForARun) {
  SkippableClock clock;
  Notification began;
  Notification may_end;
  std::atomic<int> runs = 0;
  std::atomic<bool> ended = false;
  auto task = std::make_unique<PeriodicTask>(&clock, absl::Milliseconds(1), [&] {
    if (++runs > 1) return;
    began.Notify();
    may_end.Wait();
    ended = true;
  });
  began.Wait();
  std::thread destroyer([&] {
    task.reset();
    EXPECT_TRUE(ended);
  });
  may_end.Notify();
  destroyer.join();
}

}  // namespace
}  // namespace chorale
