#include "server/lifecycle/shutdown_signal.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::ExitedWithCode;

// Each test runs in a process of its own, without other threads.
class ShutdownSignalDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void WaitFor(const std::atomic<int>& count, int value) {
  while (count < value) absl::SleepFor(absl::Milliseconds(1));
}

// The exit status is 10 * (calls of first) + (calls of second).
void SendSignals(int signal, int how_many) {
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  {
    ShutdownSignal shutdown(
        {.first = [&] { ++first; }, .second = [&] { ++second; }, .limit = absl::Seconds(20)});
    kill(getpid(), signal);
    shutdown.Wait();
    if (how_many > 1) {
      kill(getpid(), signal);
      WaitFor(second, 1);
    }
    if (how_many > 2) {
      kill(getpid(), signal);
      absl::SleepFor(absl::Seconds(20));
    }
  }
  _exit(10 * first + second);
}

TEST_F(ShutdownSignalDeathTest, TheFirstSignalAsksForAnOrderlyEnd) {
  EXPECT_EXIT(SendSignals(SIGTERM, 1), ExitedWithCode(10), "");
  EXPECT_EXIT(SendSignals(SIGINT, 1), ExitedWithCode(10), "");
}

TEST_F(ShutdownSignalDeathTest, TheSecondOneHurries) {
  EXPECT_EXIT(SendSignals(SIGTERM, 2), ExitedWithCode(11), "");
}

TEST_F(ShutdownSignalDeathTest, TheThirdOneEndsTheProcess) {
  EXPECT_EXIT(SendSignals(SIGTERM, 3), ExitedWithCode(1), "");
}

TEST_F(ShutdownSignalDeathTest, SoDoesTheTimeLimit) {
  EXPECT_EXIT(
      {
        ShutdownSignal shutdown({.first = [] {}, .second = [] {}, .limit = absl::Milliseconds(50)});
        kill(getpid(), SIGTERM);
        absl::SleepFor(absl::Seconds(20));
      },
      ExitedWithCode(1), "");
}

TEST_F(ShutdownSignalDeathTest, WithoutASignalNothingHappens) {
  EXPECT_EXIT(
      {
        std::atomic<int> count{0};
        {
          ShutdownSignal shutdown({.first = [&] { ++count; },
                                   .second = [&] { ++count; },
                                   .limit = absl::Milliseconds(1)});
          absl::SleepFor(absl::Milliseconds(20));
        }
        _exit(count);
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace chorale
