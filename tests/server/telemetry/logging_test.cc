#include "server/telemetry/logging.h"

#include <nlohmann/json.hpp>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(LoggingTest, TextIsOneLineWhateverTheValues) {
  EXPECT_EQ(FormatText("request", {{"method", "Sample"},
                                   {"paths", int64_t{-3}},
                                   {"seed", uint64_t{18446744073709551615u}},
                                   {"seconds", 0.25}}),
            "request method=Sample paths=-3 seed=18446744073709551615 seconds=0.25");
  EXPECT_EQ(FormatText("x", {{"a", "two words"}}), "x a=\"two words\"");
  EXPECT_EQ(FormatText("x", {{"a", ""}}), "x a=\"\"");
  // A value cannot forge a field or a line.
  EXPECT_EQ(FormatText("x", {{"a", "1 code=OK"}}), "x a=\"1 code=OK\"");
  EXPECT_EQ(FormatText("x", {{"a", "1\n2026 request"}}), "x a=\"1\\n2026 request\"");
  EXPECT_EQ(FormatText("x", {{"a", "\"quoted\""}}), "x a=\"\\\"quoted\\\"\"");
}

TEST(LoggingTest, JsonIsValidWhateverTheValues) {
  const std::string value = "quote \" backslash \\ newline \n bad byte \xff end";
  const std::string line =
      FormatJson("2026-01-01T00:00:00Z", "info", "request",
                 {{"text", value}, {"count", int64_t{5}}, {"seed", uint64_t{1} << 63}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(line);
  EXPECT_EQ(json["time"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["event"], "request");
  EXPECT_EQ(json["count"], 5);
  EXPECT_EQ(json["seed"], uint64_t{1} << 63);
  EXPECT_THAT(json["text"].get<std::string>(), ::testing::HasSubstr("quote \" backslash \\"));
}

}  // namespace
}  // namespace chorale
