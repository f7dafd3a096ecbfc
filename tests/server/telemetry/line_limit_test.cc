#include "server/telemetry/line_limit.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/spdlog.h"
#include "tests/server/log_recorder.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LineLimitTest : public ::testing::Test {
 protected:
  LineLimitTest() { spdlog::default_logger_raw()->sinks().push_back(recorder_); }
  ~LineLimitTest() override { spdlog::default_logger_raw()->sinks().pop_back(); }

  // How many of so many calls have lines of their own.
  int64_t Calls(const std::string& peer, int64_t count) {
    int64_t lines = 0;
    for (int64_t i = 0; i < count; ++i) lines += limit_.HasLine(peer, now_) ? 1 : 0;
    return lines;
  }

  const std::shared_ptr<LogRecorder> recorder_ = std::make_shared<LogRecorder>();
  LineLimit limit_{{"rejections_suppressed", "peer", "calls"}};
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(LineLimitTest, TheFirstOfASecondHaveLinesAndTheOthersOneTogether) {
  EXPECT_EQ(Calls("10.0.0.1", 1000), LineLimit::kLinesASecond);
  EXPECT_EQ(Calls("10.0.0.2", 3), 3);
  now_ += absl::Milliseconds(500);
  EXPECT_EQ(Calls("10.0.0.1", 10), 0);
  limit_.LogSums(now_);
  EXPECT_THAT(recorder_->lines(), IsEmpty());
  now_ += absl::Milliseconds(500);
  limit_.LogSums(now_);
  EXPECT_THAT(recorder_->lines(),
              ElementsAre("warning rejections_suppressed peer=10.0.0.1 calls=1005"));
  EXPECT_EQ(Calls("10.0.0.1", 1000), LineLimit::kLinesASecond);
}

TEST_F(LineLimitTest, ManySourcesTakeNoMoreThanAFew) {
  for (size_t i = 0; i < LineLimit::kMostSources; ++i) Calls(absl::StrCat("peer-", i), 1);
  int64_t lines = 0;
  for (int i = 0; i < 1000; ++i) lines += Calls(absl::StrCat("more-", i), 1);
  EXPECT_EQ(lines, LineLimit::kLinesASecond);
  now_ += absl::Seconds(1);
  limit_.LogSums(now_);
  EXPECT_THAT(recorder_->lines(),
              ElementsAre("warning rejections_suppressed peer=(others) calls=995"));
}

}  // namespace
}  // namespace chorale
