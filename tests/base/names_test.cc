#include "base/names.h"

#include <string>

#include "base/error_details.h"
#include "base/utf8.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(ValidateNameTest, GoodNames) {
  for (const std::string& name :
       {std::string("a"), std::string("0"), std::string("a..b"), std::string("a-b_c.d"),
        std::string("housing-2024.v2"), std::string(63, 'z'), std::string("a.")}) {
    EXPECT_TRUE(ValidateName("context_id", name).ok()) << name;
  }
}

TEST(ValidateNameTest, BadNames) {
  for (const std::string& name :
       {std::string(),           std::string("."),         std::string(".."),
        std::string("../x"),     std::string("a/b"),       std::string("/a"),
        std::string("a\\b"),     std::string("-a"),        std::string("_a"),
        std::string(".a"),       std::string("A"),         std::string("aB"),
        std::string("a b"),      std::string(" a"),        std::string("a "),
        std::string("a\n"),      std::string("a\0", 2),    std::string("\0", 1),
        std::string("a\0b", 3),  std::string("\xff"),      std::string("caf\u00e9"),
        std::string("a\u2024b"), std::string("a%2e"),      std::string("a:b"),
        std::string(64, 'a'),    std::string(1 << 20, 'a')}) {
    const absl::Status status = ValidateName("context_id", name);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(ErrorField(status), "context_id");
    EXPECT_LT(status.message().size(), 500u);
  }
}

TEST(QuoteNameTest, AlwaysShortAndValid) {
  EXPECT_EQ(QuoteName("age"), "\"age\"");
  EXPECT_EQ(QuoteName("a\"b\n"), "\"a\\\"b\\n\"");
  EXPECT_EQ(QuoteName("caf\u00e9"), "\"caf\u00e9\"");
  EXPECT_EQ(QuoteName("\xff"), "\"\\xff\"");
  for (size_t lead = 0; lead < 5; ++lead) {
    std::string text(lead, 'a');
    for (int i = 0; i < 100; ++i) text += "\U0001F3B5";
    EXPECT_TRUE(IsValidUtf8(QuoteName(text)));
    EXPECT_LT(QuoteName(text).size(), 90u);
  }
  EXPECT_LT(QuoteName(std::string(1000, '\xff')).size(), 310u);
}

TEST(Utf8Test, WellFormed) {
  for (const char* text : {"", "plain", "\u00e9", "\u20ac", "\U0001F3B5", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
  }
}

TEST(Utf8Test, IllFormed) {
  for (const char* text : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xc3", "\xe0\x80\xaf", "\xe0\x9f\xbf",
                           "\xed\xa0\x80", "\xe2\x82", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                           "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xff", "a\xc3z"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << text;
  }
}

TEST(Utf8Test, ControlCharacters) {
  EXPECT_FALSE(HasControlCharacter("plain \u00e9 \u00a0"));
  for (const std::string& text :
       {std::string("\0", 1), std::string("\t"), std::string("a\x1f"), std::string("\x7f"),
        std::string("\u0080"), std::string("\u009f")}) {
    EXPECT_TRUE(HasControlCharacter(text));
  }
}

}  // namespace
}  // namespace chorale
