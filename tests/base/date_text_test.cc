#include "base/date_text.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace chorale {
namespace {

TEST(DateTextTest, ReadsDatesOfIso8601) {
  for (const auto& [text, days] : {std::pair{"1970-01-01", 0.0},
                                   {"1970-01-02", 1.0},
                                   {"1969-12-31", -1.0},
                                   {"2000-03-01", 11017.0},
                                   {"2000-02-29", 11016.0},
                                   {"0001-01-01", -719162.0},
                                   {"9999-12-31", 2932896.0},
                                   {"2012-01", 15340.0},
                                   {"2012-12", 15675.0},
                                   {"1970-01-01T06:00", 0.25},
                                   {"1970-01-01 12:00:00", 0.5},
                                   {"1970-01-01T00:00:00.5", 0.5 / 86400},
                                   {"1970-01-01T00:00:00.000000001", 1 / 86400e9},
                                   {"1970-01-01T12:00Z", 0.5},
                                   {"1970-01-01T00:00+06:00", -0.25},
                                   {"1970-01-01T18:00-0600", 1.0},
                                   {"1970-01-01T00:00+12", -0.5},
                                   {"1969-12-31T18:00", -0.25}}) {
    ASSERT_TRUE(ParseDate(text).has_value()) << text;
    EXPECT_EQ(*ParseDate(text), days) << text;
  }
}

TEST(DateTextTest, ReadsNothingElse) {
  for (const char* text : {"",
                           "2012",
                           "2012-1",
                           "2012-13",
                           "2012-00",
                           "2012-02-30",
                           "2011-02-29",
                           "1900-02-29",
                           "2012-1-1",
                           "0000-01-01",
                           "2012-01-01T",
                           "2012-01-01 ",
                           "2012-01T12:00",
                           "2012-01-01T12",
                           "2012-01-01T24:00",
                           "2012-01-01T12:60",
                           "2012-01-01T12:00:60",
                           "2012-01-01T12:00:00.",
                           "2012-01-01T12:00:00.1234567890",
                           "2012-01-01T12:00z",
                           "2012-01-01T12:00+1",
                           "2012-01-01T12:00+24:00",
                           "2012-01-01T12:00+01:",
                           "2012-01-01T12:00+01:0",
                           "2012-01-01T12:00+010",
                           "2012-01-01  12:00",
                           "2012-01-01Z",
                           "20120101",
                           "2012/01/01",
                           " 2012-01-01",
                           "2012-01-01x",
                           "12012-01-01",
                           "-2012-01-01",
                           "2012-01-01T12:00 Z"}) {
    EXPECT_FALSE(ParseDate(text).has_value()) << text;
  }
}

TEST(DateTextTest, DatesLookLikeDates) {
  for (const char* text : {"2024-01-31",
                           "2024-01",
                           "2024-1",
                           "2024/1/3",
                           "31.01.2024",
                           "1/31/24",
                           "01/2024",
                           "1-2024",
                           "2024/01",
                           "2024-01-31T12:00:00Z",
                           "2024-01-31 12:00",
                           "31.1.2024 12:00",
                           "1/31/24 3:04 PM",
                           "1/31/2024, 3:04:05 pm",
                           "Jan 2024",
                           "January 2024",
                           "JAN-24",
                           "2024 Jan",
                           "Sept. 2024",
                           "31 Jan 2024",
                           "31Jan2024",
                           "31-JAN-24",
                           "2nd January 2024",
                           "Jan 31, 2024",
                           "January 31st, 2024",
                           "2024 January 31",
                           "Wed 31 Jan 2024",
                           "Wednesday, 31 January 2024",
                           "Tue, 02 Jan 2024 12:00:00 GMT",
                           "2024Q1",
                           "2024-Q1",
                           "2024 q4",
                           "Q1 2024",
                           "Q1/2024",
                           "1Q2024",
                           "2024-W05",
                           "2024-W05-3"}) {
    EXPECT_TRUE(LooksLikeDate(text)) << text;
  }
  for (const char* text : {"",
                           "2024",
                           "1-2-3-4",
                           "2024-01/31",
                           "192.168.0.1",
                           "12:00",
                           "a-b-c",
                           "123-45-6789",
                           "1.2.3",
                           "Jan",
                           "Monday",
                           "May 5 items",
                           "Mars 2024",
                           "Q5",
                           "2024X1",
                           "13/2024",
                           "2024-13",
                           "1/2",
                           "3/4",
                           "Jan 99999",
                           "march on",
                           "2024-01-31 noon",
                           "a:b",
                           ":",
                           "31 2024",
                           "-",
                           "/"}) {
    EXPECT_FALSE(LooksLikeDate(text)) << text;
  }
  EXPECT_FALSE(LooksLikeDate(std::string(1 << 20, '1')));
}

TEST(DateTextTest, NumbersLikeDates) {
  for (const char* text : {"20240131", "19000101", "21001231", "20240229", "20240131.0"}) {
    EXPECT_TRUE(LooksLikeDateNumber(text)) << text;
  }
  for (const char* text : {"", "2024013", "202401311", "20241301", "20230229", "18991231",
                           "21010101", "20240131.5", "-20240131"}) {
    EXPECT_FALSE(LooksLikeDateNumber(text)) << text;
  }
}

TEST(DateTextTest, NumbersLikeMonths) {
  for (const char* text : {"201501", "190001", "210012", "201512.0"}) {
    EXPECT_TRUE(LooksLikeMonthNumber(text)) << text;
  }
  for (const char* text : {"", "20151", "2015010", "201500", "201513", "189912", "210101",
                           "201501.5", "-201501", "2015-01"}) {
    EXPECT_FALSE(LooksLikeMonthNumber(text)) << text;
  }
}

}  // namespace
}  // namespace chorale
