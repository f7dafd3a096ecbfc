#include "client/cli/progress.h"

#include <gtest/gtest.h>

#include "tests/support/skippable_clock.h"

namespace chorale::client {
namespace {

TEST(ProgressTest, TheLineShowsProgressRateAndTimeLeft) {
  EXPECT_EQ(Progress::Line("rows uploaded", 120, 300, absl::Seconds(2)),
            "120 of 300 rows uploaded (40 %), 60/s, 3s left");
  EXPECT_EQ(Progress::Line("rows", 300, 300, absl::Seconds(2)), "300 of 300 rows (100 %), 150/s");
  EXPECT_EQ(Progress::Line("rows", 0, 300, absl::ZeroDuration()), "0 of 300 rows (0 %), 0/s");
}

TEST(ProgressTest, QuietInTheFirstSecond) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress("rows", 10, Progress::Display::kTerminal);
    for (int i = 0; i <= 10; ++i) progress.Update(i);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(ProgressTest, PrintsAfterThat) {
  ::testing::internal::CaptureStderr();
  {
    SkippableClock clock;
    Progress progress("rows", 10, Progress::Display::kLines, &clock);
    clock.Skip(absl::Milliseconds(1050));
    for (int i = 5; i <= 10; ++i) progress.Update(i);
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("5 of 10 rows (50 %)"), 0u) << text;
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line in ten seconds, not more: " << text;
}

}  // namespace
}  // namespace chorale::client
