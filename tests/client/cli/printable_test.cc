#include "client/cli/printable.h"

#include <sstream>

#include "gtest/gtest.h"

namespace chorale::client {
namespace {

TEST(PrintableTest, LettersOfAllScriptsStay) {
  for (const char* text : {"", "a\tb\n", "größe", "τιμή", "価格", "🎶", "e\xCC\x81"}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(PrintableTest, WhatATerminalWouldObeyIsWrittenOut) {
  const std::pair<absl::string_view, const char*> cases[] = {
      {"\x1b[2Ja", R"(\x1b[2Ja)"},
      {"\x1b]0;title\x07", R"(\x1b]0;title\x07)"},
      {absl::string_view("\0\r\x7f", 3), R"(\x00\x0d\x7f)"},
      {"\xC2\x9B"
       "2J",
       R"(\xc2\x9b2J)"},
      {"a\xE2\x80\xAE"
       "b",
       R"(a\xe2\x80\xaeb)"},
      {"\xE2\x81\xA6", R"(\xe2\x81\xa6)"},
      {"\xff\xC3(", R"(\xff\xc3()"},
      {"\xE2\x82", R"(\xe2\x82)"},
  };
  for (const auto& [text, shown] : cases) EXPECT_EQ(Printable(text), shown);
}

TEST(PrintableTest, AStreamOfPartsIsTheSame) {
  const std::string text = "größe \x1b[2J\n価格\xC2\x9B" + std::string(200'000, 'x') + "🎶\xff";
  for (const size_t part : {1, 2, 3, 5, 70'000}) {
    std::ostringstream out;
    {
      PrintableBuffer buffer(out.rdbuf());
      std::ostream shown(&buffer);
      for (size_t i = 0; i < text.size(); i += part) shown << text.substr(i, part);
    }
    EXPECT_EQ(out.str(), Printable(text)) << part;
  }
}

}  // namespace
}  // namespace chorale::client
