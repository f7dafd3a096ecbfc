#include "server/process/shutdown_signal.h"

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

// What a shutdown does, counted.
struct Counts {
  std::atomic<int> first{0};
  std::atomic<int> repeated{0};
  std::atomic<int> hurry{0};

  ShutdownSignal::Handlers Handlers(absl::Duration lame_duck = absl::ZeroDuration(),
                                    absl::Duration limit = absl::Hours(1)) {
    return {.first = [this](absl::Duration /*lame_duck*/) { ++first; },
            .repeated = [this] { ++repeated; },
            .hurry = [this] { ++hurry; },
            .lame_duck = lame_duck,
            .limit = limit};
  }
  [[noreturn]] void Exit() const { _exit(100 * first + 10 * repeated + hurry); }
};

void Send(int signal) { kill(getpid(), signal); }

void Press() {
  absl::SleepFor(2 * ShutdownSignal::kOnePress);  // the time between two presses
  Send(SIGINT);
}

// Sends SIGINT so often.
void Interrupt(int how_often) {
  Counts counts;
  {
    ShutdownSignal shutdown(counts.Handlers());
    Send(SIGINT);
    shutdown.Wait();
    if (how_often > 1) {
      Press();
      WaitFor(counts.hurry, 1);
    }
    if (how_often > 2) {
      Press();
      absl::SleepFor(absl::Minutes(1));
    }
  }
  counts.Exit();
}

// Sends SIGTERM again and again, before and during the shutdown.
void Terminate(absl::Duration lame_duck) {
  Counts counts;
  {
    ShutdownSignal shutdown(counts.Handlers(lame_duck));
    Send(SIGTERM);
    WaitFor(counts.first, 1);
    Send(SIGTERM);
    WaitFor(counts.repeated, 1);
    if (lame_duck > absl::Minutes(1)) Send(SIGINT);  // or it takes that long
    shutdown.Wait();
    for (int i = 0; i < 20; ++i) {
      Send(SIGTERM);
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  counts.Exit();
}

TEST_F(ShutdownSignalDeathTest, SigtermAsksForAnOrderlyEndHoweverOftenItComes) {
  EXPECT_EXIT(Terminate(absl::ZeroDuration()), ExitedWithCode(110), "");
}

TEST_F(ShutdownSignalDeathTest, ItDoesNotEndTheTimeAsALameDuckEither) {
  EXPECT_EXIT(Terminate(absl::Milliseconds(200)), ExitedWithCode(110), "");
}

TEST_F(ShutdownSignalDeathTest, SigintEndsTheTimeAsALameDuckAndNothingElse) {
  EXPECT_EXIT(Terminate(absl::Hours(1)), ExitedWithCode(110), "");
}

TEST_F(ShutdownSignalDeathTest, TheFirstSigintAsksTheSecondHurriesTheThirdForces) {
  EXPECT_EXIT(Interrupt(1), ExitedWithCode(100), "");
  EXPECT_EXIT(Interrupt(2), ExitedWithCode(101), "");
  EXPECT_EXIT(Interrupt(3), ExitedWithCode(1), "");
}

// A terminal sends SIGINT to the server and to the wrapper that started it, which passes it on.
TEST_F(ShutdownSignalDeathTest, OnePressThatComesTwiceIsOne) {
  EXPECT_EXIT(
      {
        Counts counts;
        ShutdownSignal::Handlers handlers = counts.Handlers();
        // At once, however busy the machine is: on the thread that takes the first one.
        handlers.first = [&](absl::Duration /*lame_duck*/) {
          ++counts.first;
          Send(SIGINT);
        };
        {
          ShutdownSignal shutdown(handlers);
          Send(SIGINT);
          shutdown.Wait();
          absl::SleepFor(absl::Milliseconds(50));
        }
        counts.Exit();
      },
      ExitedWithCode(100), "");
}

TEST_F(ShutdownSignalDeathTest, SigtermWaitsAsALameDuck) {
  EXPECT_EXIT(
      {
        Counts counts;
        const absl::Duration lame_duck = absl::Milliseconds(50);
        ShutdownSignal shutdown(counts.Handlers(lame_duck));
        const absl::Time begin = absl::Now();
        Send(SIGTERM);
        shutdown.Wait();
        _exit(absl::Now() - begin >= lame_duck ? 0 : 2);
      },
      ExitedWithCode(0), "");
}

TEST_F(ShutdownSignalDeathTest, ARequestOfTheProgramSkipsTheTimeAsALameDuck) {
  EXPECT_EXIT(
      {
        Counts counts;
        {
          ShutdownSignal shutdown(counts.Handlers(absl::Hours(1)));
          shutdown.Raise();
          shutdown.Wait();
          Press();  // the first one that somebody sends
          absl::SleepFor(absl::Milliseconds(20));
        }
        counts.Exit();
      },
      ExitedWithCode(100), "");
}

// What a hurried shutdown waits for does not keep the next signal from its work.
TEST_F(ShutdownSignalDeathTest, AHurryThatHangsCanBeForced) {
  EXPECT_EXIT(
      {
        Counts counts;
        ShutdownSignal::Handlers handlers = counts.Handlers();
        handlers.hurry = [&] {
          ++counts.hurry;
          absl::SleepFor(absl::Hours(1));
        };
        ShutdownSignal shutdown(handlers);
        Send(SIGINT);
        shutdown.Wait();
        Press();
        WaitFor(counts.hurry, 1);
        Press();
        absl::SleepFor(absl::Minutes(1));
      },
      ExitedWithCode(1), "");
}

TEST_F(ShutdownSignalDeathTest, TheTimeLimitForcesAsWell) {
  EXPECT_EXIT(
      {
        Counts counts;
        ShutdownSignal shutdown(counts.Handlers(absl::ZeroDuration(), absl::Milliseconds(50)));
        Send(SIGTERM);
        absl::SleepFor(absl::Minutes(1));
      },
      ExitedWithCode(1), "");
}

TEST_F(ShutdownSignalDeathTest, WithoutASignalNothingHappens) {
  EXPECT_EXIT(
      {
        Counts counts;
        {
          ShutdownSignal shutdown(counts.Handlers(absl::Milliseconds(1), absl::Milliseconds(1)));
          absl::SleepFor(absl::Milliseconds(20));
        }
        counts.Exit();
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace chorale
