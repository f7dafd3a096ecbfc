// Booleans, dates and files as other programs write them: what the chorale program makes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/client/cli/tables_fixture.h"
#include "tests/client/cpp/server_errors.h"

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(TablesTest, BooleansAreNumbersWithAMeaning) {
  EXPECT_THAT(Register("flag,x,y\nTRUE,1,1\nFALSE,2,2\n,3,3\nTRUE,4,4\n"),
              AllOf(HasSubstr("flag    boolean            1"), Not(HasSubstr("chorale:"))));
  EXPECT_EQ(Registered(0).numeric().meaning(), v1::NumericValues::MEANING_BOOLEAN);
  EXPECT_EQ(Registered(0).numeric().values(0), 1);
  EXPECT_EQ(Registered(0).numeric().values(1), 0);
  EXPECT_EQ(Registered(1).numeric().meaning(), v1::NumericValues::MEANING_UNSPECIFIED);
  // Whatever wrote the rows.
  EXPECT_THAT(Predict("flag,x\nTrue,1\nfalse,1\n1,1\n0.0,1\nyes,1\nN,1\n"), IsEmpty());
  EXPECT_THAT(Asked(0).numeric().values(), ElementsAre(1, 0, 1, 0, 1, 0));
  Write("bad.csv", "flag,x\nTrue,1\nmaybe,1\n");
  ExpectFailure({"predict", "t", Path("bad.csv")}, 2,
                "line 3, column 'flag': 'maybe' is neither true nor false");
}

TEST_F(TablesTest, DatesAreNumbersWithAMeaning) {
  EXPECT_THAT(Register("day,month,y\n2012-01-01,2012-01,1\n2012-01-02T12:00,2012-02,2\n"),
              AllOf(HasSubstr("day     date               0  2012-01-01 to 2012-01-02"),
                    HasSubstr("column 'day' is read as dates"),
                    HasSubstr("column 'month' is read as dates")));
  EXPECT_EQ(Registered(0).numeric().meaning(), v1::NumericValues::MEANING_DATE);
  EXPECT_THAT(Registered(0).numeric().values(), ElementsAre(15340, 15341.5));
  EXPECT_THAT(Registered(1).numeric().values(), ElementsAre(15340, 15371));
  EXPECT_THAT(Predict("day,month\n2012-01-03,15402\n15343.25,2012-03-02\n"), IsEmpty());
  EXPECT_THAT(Asked(0).numeric().values(), ElementsAre(15342, 15343.25));
  EXPECT_THAT(Asked(1).numeric().values(), ElementsAre(15402, 15401));
  Write("bad.csv", "day,month\n02.01.2012,2012-01\n");
  ExpectFailure({"predict", "t", Path("bad.csv")}, 2,
                "'02.01.2012' is neither a date like 2024-01-31");
}

TEST_F(TablesTest, OptionsKeepTheTexts) {
  EXPECT_THAT(
      Register("day,flag,y\n2012-01-01,true,1\n2012-01-02,false,2\n", {"--categorical=day,flag"}),
      Not(HasSubstr("chorale:")));
  EXPECT_THAT(Registered(0).categorical().categories(), ElementsAre("2012-01-01", "2012-01-02"));
  EXPECT_THAT(Registered(1).categorical().categories(), ElementsAre("true", "false"));
}

TEST_F(TablesTest, WhatNumbersMeanIsShown) {
  Register("day,flag,x,y\n2012-01-01,true,1,1\n2012-01-02,false,2,2\n");
  const std::string shown = Good({"show", "t", "--format=table"}).out;
  EXPECT_THAT(shown, AllOf(HasSubstr("day      date"), HasSubstr("flag     boolean"),
                           HasSubstr("x        numeric")));
  const auto json = nlohmann::json::parse(Good({"show", "t", "--format=json"}).out);
  EXPECT_EQ(json["features"][0]["type"], "numeric");
  EXPECT_EQ(json["features"][0]["meaning"], "date");
  EXPECT_EQ(json["features"][1]["meaning"], "boolean");
  EXPECT_EQ(json["features"][2]["meaning"], "");
}

// A target is a number, and booleans are 0 and 1.
TEST_F(TablesTest, ATargetOfBooleans) {
  Write("t.csv", "x,y\n1,TRUE\n2,FALSE\n");
  Good({"register", Path("t.csv"), "--target=y", "--name=t"});
  EXPECT_THAT(Registered(1).numeric().values(), ElementsAre(1, 0));
  EXPECT_THAT(Column(Good({"log-density", "t", Path("t.csv")}).out, "vector"), ElementsAre("y"));
}

TEST_F(TablesTest, TextsThatAreDatesOrNumbersToAReaderAreNoted) {
  for (const char* dates : {"Jan 2012,Feb 2012", "01/2012,02/2012", "2012Q1,2012Q2",
                            "02.01.2012,03.01.2012", "Mon 2 Jan 2012,Tue 3 Jan 2012"}) {
    const std::vector<std::string> cells = absl::StrSplit(dates, ',');
    EXPECT_THAT(Register(absl::StrCat("month,y\n", cells[0], ",1\n", cells[1], ",2\n")),
                AllOf(HasSubstr("column 'month' is read as categories, which have no order, but 2 "
                                "of its 2 cells look like dates"),
                      HasSubstr("months like 2024-01")));
    Good({"rm", "t"});
  }
  EXPECT_THAT(
      Register("w,y\n58.4 kg,1\n60 kg,2\n"),
      HasSubstr(
          "2 of its 2 cells look like numbers in another notation (first: '58.4 kg' on line 2)"));
}

TEST_F(TablesTest, AnIndexWithoutANameIsLeftOut) {
  EXPECT_THAT(Register(",code,y\n0,5,1\n1,6,2\n"),
              HasSubstr("t.csv: the first column has no name and counts the rows from 0: dropped "
                        "as an index"));
  EXPECT_EQ(server_.service().Chunks("t").at(0).columns_size(), 2);
  EXPECT_THAT(Predict(",code,y\n2,5,1\n3,6,2\n"),
              HasSubstr("rows.csv: the first column has no name"));
  EXPECT_THAT(Asked(0).numeric().values(), ElementsAre(5, 6));
  Good({"rm", "t"});
  EXPECT_THAT(
      Register("Unnamed: 0,code,y\n0,5,1\n1,6,2\n"),
      HasSubstr("t.csv: column 'Unnamed: 0' has a name that pandas gives to unnamed columns"));
  EXPECT_EQ(server_.service().Chunks("t").at(0).columns_size(), 2);
  Good({"rm", "t"});
  EXPECT_THAT(Register("code,y,\n5,1,\n6,2,\n"), HasSubstr("neither a name nor values"));
  EXPECT_THAT(RegisterError(",code,y\nr1,5,1\nr2,6,2\n"),
              HasSubstr("t.csv: line 1: column 1 of the header has no name: name it"));
}

TEST_F(TablesTest, ANameThatTheServerRefusesIsCalledByItsOption) {
  server_.service().FailNext(
      {WithBadField("spec.context_id: must match [a-z]", "spec.context_id", "the name")});
  EXPECT_THAT(RegisterError("code,y\n5,1\n6,2\n"), HasSubstr("--name: must match [a-z]"));
}

TEST_F(TablesTest, RowsWithoutACellAreNoRows) {
  EXPECT_THAT(Register("x,z,y\n1,2,3\n,,\n2,3,4\n"),
              HasSubstr("t.csv: 1 line has only delimiters: dropped (line 3)"));
  EXPECT_EQ(server_.service().Chunks("t").at(0).columns(0).numeric().values_size(), 2);
  EXPECT_THAT(Predict("x,z\n1,2\n,\n3,4\n,\n"),
              HasSubstr("rows.csv: 2 lines have only delimiters: dropped (first: line 3)"));
  EXPECT_THAT(Asked(0).numeric().values(), ElementsAre(1, 3));
}

TEST_F(TablesTest, FilesOfOtherPrograms) {
  EXPECT_THAT(
      Register("x;w;y\n1;1,5;3\n2;2,5;4\n"),
      AllOf(HasSubstr("t.csv: read with semicolons as delimiters"),
            HasSubstr("column 'w' is read as categories, but 2 of its 2 cells look like numbers "
                      "in another notation")));
  EXPECT_EQ(Registered(0).numeric().values(1), 2);
  EXPECT_THAT(Predict("sep=;\nx;w\n1;1,5\n"), HasSubstr("as the first line specifies"));
  Good({"rm", "t"});
  EXPECT_THAT(Register("x\ty\n1\t3\n2\t4\n"), HasSubstr("read with tabs"));
  Good({"rm", "t"});
  EXPECT_THAT(RegisterError("\x1F\x8B\x08"), AllOf(HasSubstr("gzip"), HasSubstr("gunzip -c ")));
  EXPECT_THAT(RegisterError("PAR1"), AllOf(HasSubstr("Parquet"), HasSubstr("to_csv")));
}

}  // namespace
}  // namespace chorale::client
