#include "base/number_text.h"

#include <gtest/gtest.h>

namespace chorale {
namespace {

TEST(ParseNumberTest, TakesFiniteDecimalsOnly) {
  EXPECT_EQ(ParseNumber("1"), 1.0);
  EXPECT_EQ(ParseNumber("-1.5e3"), -1500.0);
  EXPECT_EQ(ParseNumber("+2"), 2.0);
  EXPECT_EQ(ParseNumber(".5"), 0.5);
  EXPECT_EQ(ParseNumber("1e-400"), 0.0);
  EXPECT_EQ(ParseNumber("4.9e-324"), 4.9e-324);
  EXPECT_EQ(ParseNumber("\u2212"
                        "5"),
            -5.0)
      << "the typographic minus";
  for (const char* text : {"",
                           "+",
                           "-",
                           "+-1",
                           "1x",
                           "1 2",
                           "0x10",
                           "inf",
                           "-inf",
                           "nan",
                           "1e400",
                           "1,5",
                           "e5",
                           "--1",
                           "\u2212",
                           "\u2212-1",
                           "-\u2212"
                           "1",
                           "+\u2212"
                           "1",
                           "\u2212+1",
                           "\u2212inf"}) {
    EXPECT_EQ(ParseNumber(text), std::nullopt) << text;
  }
}

TEST(NumberTextTest, OtherSpellingsLookLikeNumbers) {
  for (const char* text : {"1 234",
                           "1\u00A0"
                           "234",
                           "1\u202F"
                           "234,5",
                           "1,234.50",
                           "1.234,50",
                           "12,34,567",
                           "1'000",
                           "1\u2019"
                           "000",
                           "1_000",
                           "3%",
                           "3 %",
                           "2,5 %",
                           "5\u2030",
                           "$1.50",
                           "-$1.50",
                           "$-1.50",
                           "(12)",
                           "1,5",
                           "12,5 \u20AC",
                           "\u00A3"
                           "3",
                           "USD 12",
                           "<5",
                           ">100",
                           "\u2264 3",
                           "~7",
                           "5*",
                           "inf",
                           "-Infinity",
                           "\u221E",
                           "1 234 567",
                           "5 kg",
                           "5kg",
                           "5 KG",
                           "1,5 kg",
                           "1.234,5 m\u00B2",
                           "7m",
                           "20 \u00B0"
                           "C",
                           "50 km/h",
                           "~3 h"}) {
    EXPECT_TRUE(LooksLikeNumber(text)) << text;
  }
  for (const char* text :
       {"",      "1.5", "abc",  "A12",   "12A", "1.2.3", "12.01.2024", "2024-01-05", "192.168.0.1",
        "12:30", "a,b", ",",    "%",     "$",   "1,,2",  "12 34",      "3 bedrooms", "x%",
        "NA",    "kg",  "a kg", "5 kgs", "3rd"}) {
    EXPECT_FALSE(LooksLikeNumber(text)) << text;
  }
}

TEST(NumberTextTest, WhatANumberLoses) {
  for (const char* text : {"01", "00123", "-01", "+007", "00"}) EXPECT_TRUE(HasLeadingZero(text));
  for (const char* text : {"0", "10", "0.5", "01.5", "-0", "1e05"}) {
    EXPECT_FALSE(HasLeadingZero(text)) << text;
  }
  EXPECT_TRUE(IsRoundedInteger("9007199254740993"));
  EXPECT_TRUE(IsRoundedInteger("-12345678901234567891"));
  for (const char* text : {"9007199254740992", "9007199254740994", "0009007199254740992", "123",
                           "1e30", "0.12345678901234567891", "100000000000000000000"}) {
    EXPECT_FALSE(IsRoundedInteger(text)) << text;
  }
}

}  // namespace
}  // namespace chorale
