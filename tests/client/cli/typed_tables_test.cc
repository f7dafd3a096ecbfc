// Types of columns, and files as other programs write them: what the chorale program sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/cli/warning_hint.h"
#include "tests/client/cli/tables_fixture.h"
#include "tests/client/cpp/server_errors.h"

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(TablesTest, TheTypesThatTheServerInfersAreShown) {
  EXPECT_THAT(Register("flag,day,x,y\nTRUE,2012-01-01,1,1\n,2012-01-02,2,2\n"),
              AllOf(HasSubstr("flag     boolean  -                 1"),
                    HasSubstr("day      date     -                 0"),
                    HasSubstr("x        numeric  -                 0")));
  EXPECT_THAT(Registered(0).strings().values(), ElementsAre("TRUE", ""));
  EXPECT_THAT(Register("flag,day,x,y\nTRUE,2012-01-01,1,1\n,2012-01-02,2,2\n", {"--quiet"}),
              IsEmpty());
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
  EXPECT_THAT(Registered(1).strings().values(), ElementsAre("TRUE", "FALSE"));
  EXPECT_THAT(Column(Good({"log-density", "t", Path("t.csv")}).out, "vector"), ElementsAre("y"));
  EXPECT_THAT(server_.service().last_log_density().values(), ElementsAre(1, 0));
}

TEST_F(TablesTest, CellsThatTheServerRejectsAreNamedByTheirLine) {
  RegisterHouses();
  const grpc::Status bad = WithBadField("rows.columns[\"size\"].strings.values[1]: is \"large\"",
                                        "rows.columns[\"size\"].strings.values[1]", "is \"large\"");
  Write("bad.csv", "size,zip,price\n1,01,3\n\nlarge,02,4\n");
  for (const std::vector<std::string>& command : {std::vector<std::string>{"predict"},
                                                  {"sample"},
                                                  {"sample", "--validate-only"},
                                                  {"log-density"}}) {
    server_.service().FailNext({grpc::Status::OK, bad});
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.begin() + 1, {"houses", Path("bad.csv")});
    ExpectFailure(arguments, 2, "bad.csv: line 4: rows.columns[\"size\"]");
  }
  // In a later request for the same file.
  std::string many = "size,zip\n";
  for (int i = 0; i < 1500; ++i) absl::StrAppend(&many, i, ",01\n");
  Write("many.csv", many);
  server_.service().FailNext({grpc::Status::OK, grpc::Status::OK, bad});
  const ProgramResult result = RunProgram({"predict", "houses", Path("many.csv")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("many.csv: line 1027: "));
  EXPECT_EQ(Column(result.out, "row").size(), 1024u);
}

TEST(WarningHintTest, NamesTheOptionThatCorrectsTheType) {
  v1::Warning warning;
  warning.set_column("a, b");
  warning.set_reason(v1::Warning::REASON_LEADING_ZEROS);
  EXPECT_EQ(HintFor(warning), "use --categorical='\"a, b\"'");
  warning.set_reason(v1::Warning::REASON_ALL_DISTINCT);
  EXPECT_EQ(HintFor(warning), "use --drop='\"a, b\"'");
  warning.set_reason(v1::Warning::REASON_MIXED_TYPES);
  EXPECT_THAT(HintFor(warning), HasSubstr("--missing=TEXT,..."));
  warning.set_reason(v1::Warning::REASON_OUTLIERS);
  EXPECT_EQ(HintFor(warning), "");
}

TEST_F(TablesTest, AnIndexWithoutANameIsLeftOut) {
  EXPECT_THAT(Register(",code,y\n0,5,1\n1,6,2\n"),
              HasSubstr("t.csv: the first column has no name and counts the rows from 0: dropped "
                        "as an index"));
  EXPECT_EQ(server_.service().Chunks("t").at(0).columns_size(), 2);
  EXPECT_THAT(Predict(",code,y\n2,5,1\n3,6,2\n"),
              HasSubstr("rows.csv: the first column has no name"));
  EXPECT_THAT(Asked(0).strings().values(), ElementsAre("5", "6"));
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
  EXPECT_THAT(Registered(0).strings().values(), ElementsAre("1", "2"));
  EXPECT_THAT(Predict("x,z\n1,2\n,\n3,4\n,\n"),
              HasSubstr("rows.csv: 2 lines have only delimiters: dropped (first: line 3)"));
  EXPECT_THAT(Asked(0).strings().values(), ElementsAre("1", "3"));
}

TEST_F(TablesTest, FilesOfOtherPrograms) {
  EXPECT_THAT(Register("x;w;y\n1;1,5;3\n2;2,5;4\n"),
              HasSubstr("t.csv: read with semicolons as delimiters"));
  EXPECT_THAT(Registered(1).strings().values(), ElementsAre("1,5", "2,5"));
  EXPECT_THAT(Predict("sep=;\nx;w\n1;1,5\n"), HasSubstr("as the first line specifies"));
  Good({"rm", "t"});
  EXPECT_THAT(Register("x\ty\n1\t3\n2\t4\n"), HasSubstr("read with tabs"));
  Good({"rm", "t"});
  EXPECT_THAT(RegisterError("\x1F\x8B\x08"), AllOf(HasSubstr("gzip"), HasSubstr("gunzip -c ")));
  EXPECT_THAT(RegisterError("PAR1"), AllOf(HasSubstr("Parquet"), HasSubstr("to_csv")));
}

}  // namespace
}  // namespace chorale::client
