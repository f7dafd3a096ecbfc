#include "base/clock.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "tests/support/skippable_clock.h"

namespace chorale {
namespace {

TEST(ClockTest, AWaitEndsAtItsTime) {
  const Clock& clock = *Clock::Real();
  Mutex mutex;
  CondVar never;
  const absl::Time end = clock.Now() + absl::Milliseconds(20);
  MutexLock lock(&mutex);
  while (clock.Now() < end) clock.WaitUntil(end, &never, &mutex);
  EXPECT_GE(clock.Now(), end);
}

TEST(ClockTest, ANotificationEndsAWaitWithoutEnd) {
  const Clock& clock = *Clock::Real();
  Mutex mutex;
  CondVar changed;
  bool done = false;
  std::thread notifier([&] {
    MutexLock lock(&mutex);
    done = true;
    changed.NotifyAll();
  });
  {
    MutexLock lock(&mutex);
    while (!done) clock.WaitUntil(absl::InfiniteFuture(), &changed, &mutex);
  }
  notifier.join();
}

TEST(ClockTest, AWaitUntilThePastReturns) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  Clock::Real()->WaitUntil(absl::InfinitePast(), &never, &mutex);
}

TEST(SkippableClockTest, ASkipEndsAWait) {
  SkippableClock clock;
  Mutex mutex;
  CondVar never;
  const absl::Time end = clock.Now() + absl::Hours(1);
  std::thread skipper([&] { clock.Skip(absl::Hours(2)); });
  {
    MutexLock lock(&mutex);
    while (clock.Now() < end) clock.WaitUntil(end, &never, &mutex);
  }
  skipper.join();
}

}  // namespace
}  // namespace chorale
