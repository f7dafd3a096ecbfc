#include "server/telemetry/logging.h"

#include <sys/syscall.h>
#include <unistd.h>

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

// Terminals and viewers take these for commands, or for the end of a line.
TEST(LoggingTest, TextHasNoControlCharacters) {
  EXPECT_EQ(FormatText("x", {{"a",
                              "\xc2\x9b"
                              "2J"}}),
            R"(x a="\302\2332J")");                                              // U+009B
  EXPECT_EQ(FormatText("x", {{"a", "\xc2\x85"}}), R"(x a="\302\205")");          // U+0085
  EXPECT_EQ(FormatText("x", {{"a", "\xe2\x80\xa8"}}), R"(x a="\342\200\250")");  // U+2028
  EXPECT_EQ(FormatText("x", {{"a", "\xff"}}), R"(x a="\377")");                  // not UTF-8
  EXPECT_EQ(FormatText("x", {{"a", "\x1b[2J"}}), R"(x a="\033[2J")");
  EXPECT_EQ(FormatText("x", {{"a", "\xc3\xa9"}}), "x a=\"\xc3\xa9\"");  // a letter
}

TEST(LoggingTest, JsonIsAscii) {
  const std::string value = "\xc2\x85 \xe2\x80\xa8 \xc3\xa9";
  const std::string line = FormatJson("t", "info", "request", {{"text", value}});
  for (const char c : line) EXPECT_TRUE(c >= ' ' && c < '\x7f') << line;
  EXPECT_EQ(nlohmann::json::parse(line)["text"], value);
}

// In a process of its own, because logging starts once; its standard error is a pipe that nobody
// reads.
TEST(LoggingDeathTest, LinesThatCannotBeWrittenAreCountedAndBlockNobody) {
  EXPECT_EXIT(
      {
        int ends[2];
        if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) _exit(1);
        if (LogLinesDropped() != 0) _exit(2);
        StartLogging(LogFormat::kText, spdlog::level::info);
        // The pipe and the queue together hold fewer.
        for (int i = 0; i < 30'000; ++i) LogEvent(spdlog::level::info, "request", {{"a", "b"}});
        // Not _exit: thread sanitizer's waits for the thread that cannot write.
        syscall(SYS_exit_group, LogLinesDropped() > 0 ? 0 : 3);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(LoggingTest, JsonIsValidWhateverTheValues) {
  const std::string value = "quote \" backslash \\ newline \n bad byte \xff end";
  const std::string line = FormatJson(
      "2026-01-01T00:00:00Z", "info", "request",
      {{"text", value}, {"count", int64_t{5}}, {"seed", uint64_t{1} << 63}, {"slow", true}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(line);
  EXPECT_EQ(json["time"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["event"], "request");
  EXPECT_EQ(json["count"], 5);
  EXPECT_EQ(json["slow"], true);
  EXPECT_EQ(json["seed"], uint64_t{1} << 63);
  EXPECT_THAT(json["text"].get<std::string>(), ::testing::HasSubstr("quote \" backslash \\"));
}

}  // namespace
}  // namespace chorale
