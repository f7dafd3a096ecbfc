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

// Sends the first signal and, once it was seen, the others after the start of the shutdown. The
// exit status is 10 * (calls of first) + (calls of hurry).
void SendSignals(int signal, int how_many) {
  std::atomic<int> first{0};
  std::atomic<int> hurry{0};
  {
    ShutdownSignal shutdown({.first = [&] { ++first; },
                             .hurry = [&] { ++hurry; },
                             .lame_duck = absl::ZeroDuration(),
                             .limit = absl::Seconds(20)});
    kill(getpid(), signal);
    shutdown.Wait();
    if (how_many > 1) {
      kill(getpid(), signal);
      WaitFor(hurry, 1);
    }
    if (how_many > 2) {
      kill(getpid(), signal);
      absl::SleepFor(absl::Seconds(20));
    }
  }
  _exit(10 * first + hurry);
}

// Sends a signal and, if `second` is not 0, that one during the time as a lame duck. The exit
// status is 10 * (whether the time was spent) + (calls of hurry).
void BeALameDuck(int signal, int second, absl::Duration lame_duck) {
  std::atomic<int> first{0};
  std::atomic<int> hurry{0};
  bool spent = false;
  {
    ShutdownSignal shutdown({.first = [&] { ++first; },
                             .hurry = [&] { ++hurry; },
                             .lame_duck = lame_duck,
                             .limit = absl::Seconds(20)});
    const absl::Time begin = absl::Now();
    kill(getpid(), signal);
    WaitFor(first, 1);
    if (second != 0) kill(getpid(), second);
    shutdown.Wait();
    spent = absl::Now() - begin >= lame_duck;
  }
  _exit(10 * static_cast<int>(spent) + hurry);
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

TEST_F(ShutdownSignalDeathTest, SigtermWaitsAsALameDuck) {
  EXPECT_EXIT(BeALameDuck(SIGTERM, 0, absl::Milliseconds(50)), ExitedWithCode(10), "");
}

TEST_F(ShutdownSignalDeathTest, AnotherSignalEndsTheTimeAsALameDuckAndNothingElse) {
  EXPECT_EXIT(BeALameDuck(SIGTERM, SIGTERM, absl::Hours(1)), ExitedWithCode(0), "");
  EXPECT_EXIT(BeALameDuck(SIGTERM, SIGINT, absl::Hours(1)), ExitedWithCode(0), "");
}

TEST_F(ShutdownSignalDeathTest, SigintSkipsIt) {
  EXPECT_EXIT(BeALameDuck(SIGINT, 0, absl::Hours(1)), ExitedWithCode(0), "");
}

TEST_F(ShutdownSignalDeathTest, SoDoesTheTimeLimit) {
  EXPECT_EXIT(
      {
        ShutdownSignal shutdown({.first = [] {},
                                 .hurry = [] {},
                                 .lame_duck = absl::ZeroDuration(),
                                 .limit = absl::Milliseconds(50)});
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
                                   .hurry = [&] { ++count; },
                                   .lame_duck = absl::Milliseconds(1),
                                   .limit = absl::Milliseconds(1)});
          absl::SleepFor(absl::Milliseconds(20));
        }
        _exit(count);
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace chorale
