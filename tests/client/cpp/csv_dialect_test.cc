// Files as other programs write them: what separates the cells, columns without a name, rows
// without a cell, and what is no CSV.
#include "client/cpp/csv_dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/csv.h"

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CsvTable Parsed(absl::string_view content) {
  absl::StatusOr<CsvTable> table = ParseCsv(content);
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? *std::move(table) : CsvTable();
}

std::vector<std::string> Row(const CsvTable& table, int64_t row) {
  std::vector<std::string> cells;
  for (int64_t column = 0; column < table.column_count(); ++column) {
    cells.emplace_back(table.Cell(row, column));
  }
  return cells;
}

std::string Error(absl::string_view content) {
  return std::string(ParseCsv(content).status().message());
}

TEST(CsvDialectTest, SemicolonsTabsAndBars) {
  CsvTable table = Parsed("a;b\n1,5;x\n\"2;5\"; y \n");
  EXPECT_THAT(table.names(), ElementsAre("a", "b"));
  EXPECT_THAT(Row(table, 0), ElementsAre("1,5", "x"));
  EXPECT_THAT(Row(table, 1), ElementsAre("2;5", "y"));
  EXPECT_THAT(table.notes(),
              ElementsAre("read with semicolons as delimiters, because the header has no comma"));
  table = Parsed("a\tb c\tc\n 1 \t\tx\n");
  EXPECT_THAT(table.names(), ElementsAre("a", "b c", "c"));
  EXPECT_THAT(Row(table, 0), ElementsAre("1", "", "x"));
  EXPECT_THAT(table.notes(), ElementsAre(HasSubstr("read with tabs")));
  EXPECT_EQ(table.Line(0), 2);
  table = Parsed("a|b\n1|x\n");
  EXPECT_THAT(table.names(), ElementsAre("a", "b"));
  EXPECT_THAT(table.notes(), ElementsAre(HasSubstr("read with bars")));
}

TEST(CsvDialectTest, OtherFilesAreReadAsBefore) {
  for (const char* content : {"a;b,c\n1,2\n", "\"a;b\"\n1\n", "temp;C\n1\n", "a\n1;2\n", "a\t\n1\n",
                              "a\tb,c\n1,2\n", "p(y|x)\n1\n"}) {
    EXPECT_THAT(Parsed(content).notes(), IsEmpty()) << content;
  }
  EXPECT_THAT(Parsed("temp;C\n1\n").names(), ElementsAre("temp;C"));
  EXPECT_THAT(Parsed("a;b\n").names(), ElementsAre("a", "b")) << "a header alone";
}

TEST(CsvDialectTest, TheFirstLineMaySayIt) {
  CsvTable table = Parsed("\xEF\xBB\xBFsep=;\r\na,b;c\r\n1;2\r\n");
  EXPECT_THAT(table.names(), ElementsAre("a,b", "c"));
  EXPECT_THAT(Row(table, 0), ElementsAre("1", "2"));
  EXPECT_EQ(table.Line(0), 3);
  EXPECT_THAT(table.notes(), ElementsAre("read with semicolons as delimiters, as the first line "
                                         "specifies"));
  EXPECT_THAT(Error("sep=;\na;b\n1\n"), HasSubstr("line 3: 1 cell,"));
  EXPECT_THAT(Parsed("sep=,\na;b\n1\n").names(), ElementsAre("a;b"));
  EXPECT_THAT(Parsed("SEP=|\na|b\n1|2\n").names(), ElementsAre("a", "b"));
  EXPECT_THAT(Parsed("sep=x\n1\n").names(), ElementsAre("sep=x"));
}

TEST(CsvDialectTest, AFirstColumnWithoutANameThatCountsTheRowsIsAnIndex) {
  for (const char* content :
       {",a\n0,x\n1,y\n", ",a\n1,x\n2,y\n", "\"\",a\n250,x\n251,y\n", ";a\n0;x\n1;y\n"}) {
    const CsvTable table = Parsed(content);
    EXPECT_THAT(table.names(), ElementsAre("a")) << content;
    EXPECT_THAT(Row(table, 1), ElementsAre("y"));
    EXPECT_THAT(table.notes(), ::testing::Contains(HasSubstr("dropped as an index"))) << content;
  }
  for (const char* content : {",a\n0,x\n2,y\n", ",a\n1,x\n0,y\n", ",a\n0.5,x\n1.5,y\n",
                              ",a\n-1,x\n0,y\n", ",a\nr1,x\nr2,y\n", ",a\n0,x\n,y\n"}) {
    EXPECT_THAT(Error(content),
                AllOf(HasSubstr("line 1: column 1 of the header has no name: name it"),
                      HasSubstr("index=False")))
        << content;
  }
  EXPECT_THAT(Error("a,\nx,0\ny,1\n"), HasSubstr("column 2 of the header has no name"));
}

TEST(CsvDialectTest, AnIndexUnderTheNameThatPandasGivesIt) {
  for (const char* content :
       {"Unnamed: 0,a\n0,x\n1,y\n", "a,Unnamed: 12\nx,1\ny,2\n",
        "Unnamed: 0.1,Unnamed: 0,a\n250,0,x\n251,1,y\n", ",Unnamed: 0,a\n0,3,x\n1,4,y\n"}) {
    const CsvTable table = Parsed(content);
    EXPECT_THAT(table.names(), ElementsAre("a")) << content;
    EXPECT_EQ(table.Find("a"), 0);
    EXPECT_EQ(table.Find("Unnamed: 0"), -1);
    EXPECT_THAT(Row(table, 1), ElementsAre("y"));
    EXPECT_THAT(table.notes(), ::testing::Contains(HasSubstr("dropped as an index"))) << content;
  }
  for (const char* content :
       {"Unnamed: 0,a\n0,x\n2,y\n", "Unnamed: 0,a\nr1,x\nr2,y\n", "unnamed: 0,a\n0,x\n1,y\n",
        "Unnamed: ,a\n0,x\n1,y\n", "Unnamed: 0.,a\n0,x\n1,y\n", "Unnamed: b,a\n0,x\n1,y\n"}) {
    EXPECT_EQ(Parsed(content).column_count(), 2) << content;
  }
}

TEST(CsvDialectTest, AColumnWithoutNameAndCellsIsLeftOut) {
  const CsvTable table = Parsed("a,b,,\n1,2,,\n3,4, ,\n");
  EXPECT_THAT(table.names(), ElementsAre("a", "b"));
  EXPECT_THAT(Row(table, 1), ElementsAre("3", "4"));
  EXPECT_THAT(table.notes(), ElementsAre("column 3 has neither a name nor values: dropped",
                                         "column 4 has neither a name nor values: dropped"));
  EXPECT_THAT(Error("a,b,\n1,2,\n3,4,note\n"), HasSubstr("column 3 of the header has no name"));
  EXPECT_THAT(Error("\"\",\"\"\n"), HasSubstr("no column of the header has a name"));
}

TEST(CsvDialectTest, LinesOfDelimitersAreNoRows) {
  const CsvTable table = Parsed("a,b\n,\n1,2\n , \r\n\n3,\n,\n");
  EXPECT_EQ(table.row_count(), 2);
  EXPECT_THAT(Row(table, 1), ElementsAre("3", ""));
  EXPECT_EQ(table.Line(1), 6);
  EXPECT_THAT(table.notes(), ElementsAre("3 lines have only delimiters: dropped (first: line 2)"));
  EXPECT_THAT(Parsed("a;b\n1;2\n;\n").notes(),
              ElementsAre(HasSubstr("semicolons"), "1 line has only delimiters: dropped (line 3)"));
  // In a cell that spans lines they are text, and an empty cell in quotes is one.
  EXPECT_THAT(Row(Parsed("a,b\n\"x\n,\ny\",1\n"), 0), ElementsAre("x\n,\ny", "1"));
  EXPECT_EQ(Parsed("a,b\n\"\",\n").row_count(), 1);
}

TEST(CsvDialectTest, WhatIsNoCsvIsNamedWithTheCommandThatConvertsIt) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/dialect it's ", getpid());
  const auto error_of = [&](absl::string_view content) {
    std::ofstream(path, std::ios::binary) << content;
    return std::string(ReadCsv(path).status().message());
  };
  EXPECT_THAT(error_of("\x1F\x8B\x08 compressed"),
              AllOf(HasSubstr("compressed by gzip"), HasSubstr("gunzip -c '/"),
                    HasSubstr("it'\\''s"), HasSubstr("> table.csv")));
  EXPECT_THAT(error_of("PAR1 bytes"),
              AllOf(HasSubstr("a Parquet file"), HasSubstr("pandas.read_parquet")));
  EXPECT_THAT(error_of("PK\x03\x04 bytes"), HasSubstr("workbook"));
  EXPECT_THAT(error_of("\x28\xB5\x2F\xFD bytes"), HasSubstr("zstd -dc"));
  for (const absl::string_view content :
       {absl::string_view("\xFF\xFE"
                          "a\0,\0b\0",
                          8),
        absl::string_view("\xFE\xFF\0a\0,", 6), absl::string_view("a\0,\0", 4),
        absl::string_view("\0a\0,", 4)}) {
    EXPECT_THAT(error_of(content),
                AllOf(HasSubstr("text in UTF-16"), HasSubstr("iconv -f UTF-16 -t UTF-8")));
  }
  EXPECT_TRUE(error_of("a,b\n1,2\n").empty());
  EXPECT_THAT(error_of(""), HasSubstr("no header line"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace chorale::client
