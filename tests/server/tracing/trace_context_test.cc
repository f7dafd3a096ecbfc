#include "server/tracing/trace_context.h"

#include <optional>
#include <string>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpan[] = "00f067aa0ba902b7";

std::string Header(absl::string_view version = "00", absl::string_view flags = "01",
                   absl::string_view rest = "") {
  return absl::StrCat(version, "-", kTrace, "-", kSpan, "-", flags, rest);
}

TEST(TraceparentTest, IsParsed) {
  const std::optional<TraceParent> parent = ParseTraceparent(Header());
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(ToHex(parent->trace_id), kTrace);
  EXPECT_EQ(ToHex(parent->span_id), kSpan);
  EXPECT_TRUE(parent->sampled);
}

TEST(TraceparentTest, OnlyTheLowestFlagSaysSampled) {
  EXPECT_FALSE(ParseTraceparent(Header("00", "00"))->sampled);
  EXPECT_FALSE(ParseTraceparent(Header("00", "02"))->sampled);
  EXPECT_TRUE(ParseTraceparent(Header("00", "03"))->sampled);
  EXPECT_TRUE(ParseTraceparent(Header("00", "ff"))->sampled);
}

TEST(TraceparentTest, LaterVersionsMayAddFields) {
  EXPECT_TRUE(ParseTraceparent(Header("01")).has_value());
  EXPECT_TRUE(ParseTraceparent(Header("cc", "01", "-what-comes-then")).has_value());
  EXPECT_TRUE(ParseTraceparent(Header("cc", "01", "-")).has_value());
  EXPECT_FALSE(ParseTraceparent(Header("cc", "01", ".what")).has_value());
  EXPECT_FALSE(ParseTraceparent(Header("cc", "01", "0")).has_value());
}

TEST(TraceparentTest, MalformedOnesAreIgnored) {
  const std::string good = Header();
  ASSERT_EQ(good.size(), 55u);
  // Every shorter one, and every one with a foreign character somewhere.
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(ParseTraceparent(good.substr(0, i)).has_value()) << i;
    for (const char c : {'g', 'A', ' ', '\0', '\xff', '/', ':', '`'}) {
      std::string bad = good;
      bad[i] = c;
      EXPECT_FALSE(ParseTraceparent(bad).has_value()) << i << " " << static_cast<int>(c);
    }
  }
  const std::string zeros32(32, '0');
  const std::string zeros16(16, '0');
  for (const std::string& bad :
       {absl::StrCat(good, "-"), absl::StrCat(good, "-00"), absl::StrCat(" ", good),
        absl::AsciiStrToUpper(good), Header("ff"), absl::StrCat("00-", zeros32, "-", kSpan, "-01"),
        absl::StrCat("00-", kTrace, "-", zeros16, "-01"), absl::StrCat(good, ",", good)}) {
    EXPECT_FALSE(ParseTraceparent(bad).has_value()) << bad;
  }
}

TEST(TraceContextTest, ContinuesTheParentsTraceWithItsDecision) {
  absl::BitGen random;
  for (const bool sampled : {false, true}) {
    const std::optional<TraceParent> parent = ParseTraceparent(Header("00", sampled ? "01" : "00"));
    // The rate does not count where there is a parent.
    const TraceContext context = MakeTraceContext(parent, sampled ? 0 : 1, random);
    EXPECT_EQ(context.trace_id, parent->trace_id);
    EXPECT_EQ(context.parent_id, parent->span_id);
    EXPECT_NE(context.span_id, parent->span_id);
    EXPECT_NE(context.span_id, SpanId{});
    EXPECT_EQ(context.sampled, sampled);
  }
}

TEST(TraceContextTest, BeginsTracesOfTheirOwn) {
  absl::BitGen random;
  const TraceContext first = MakeTraceContext(std::nullopt, 1, random);
  const TraceContext second = MakeTraceContext(std::nullopt, 0, random);
  EXPECT_NE(first.trace_id, second.trace_id);
  EXPECT_NE(first.span_id, second.span_id);
  EXPECT_EQ(first.parent_id, SpanId{});
  EXPECT_TRUE(first.sampled);
  EXPECT_FALSE(second.sampled);
}

TEST(SamplerTest, TakesTheShareThatIsAskedFor) {
  absl::BitGen random;
  constexpr int kTraces = 100'000;
  int sampled = 0;
  for (int i = 0; i < kTraces; ++i) {
    sampled += MakeTraceContext(std::nullopt, 0.01, random).sampled ? 1 : 0;
  }
  // The standard deviation is 31.5: this fails by chance once in 10^9 runs.
  EXPECT_NEAR(sampled, 1000, 200);
}

TEST(SamplerTest, DependsOnTheRandomBytesAlone) {
  TraceId low{};
  low[0] = 0xff;
  TraceId high{};
  for (size_t i = 9; i < high.size(); ++i) high[i] = 0xff;
  EXPECT_TRUE(SampleRoot(low, 1e-9));
  EXPECT_FALSE(SampleRoot(low, 0));
  EXPECT_FALSE(SampleRoot(high, 0.999));
  EXPECT_TRUE(SampleRoot(high, 1.001));
  TraceId half{};
  half[9] = 0x80;
  EXPECT_FALSE(SampleRoot(half, 0.5));
  EXPECT_TRUE(SampleRoot(half, 0.50001));
}

}  // namespace
}  // namespace chorale
