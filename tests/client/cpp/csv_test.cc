#include "client/cpp/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Grid = std::vector<std::vector<std::string>>;

Grid Cells(const CsvTable& table) {
  Grid grid;
  for (int64_t row = 0; row < table.row_count(); ++row) {
    grid.emplace_back();
    for (int64_t column = 0; column < table.column_count(); ++column) {
      grid.back().emplace_back(table.Cell(row, column));
    }
  }
  return grid;
}

void ExpectCells(absl::string_view content, const Grid& expected) {
  const absl::StatusOr<CsvTable> table = ParseCsv(content);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(Cells(*table), expected);
}

void ExpectError(absl::string_view content, absl::string_view what) {
  const absl::StatusOr<CsvTable> table = ParseCsv(content);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(table.status().message()), HasSubstr(std::string(what)));
}

TEST(CsvTest, ReadsPlainRows) {
  const absl::StatusOr<CsvTable> table = ParseCsv("a,b\n1,x\n2,y\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->names(), ElementsAre("a", "b"));
  EXPECT_EQ(Cells(*table), (Grid{{"1", "x"}, {"2", "y"}}));
  EXPECT_EQ(table->Find("b"), 1);
  EXPECT_EQ(table->Find("c"), -1);
  EXPECT_EQ(table->Line(1), 3);
}

TEST(CsvTest, ReadsAllLineEnds) {
  const Grid expected = {{"1", "x"}, {"2", "y"}};
  ExpectCells("a,b\r\n1,x\r\n2,y\r\n", expected);
  ExpectCells("a,b\r1,x\r2,y\r", expected);
  ExpectCells("a,b\n1,x\n2,y", expected);
  ExpectCells(
      "\xEF\xBB\xBF"
      "a,b\n1,x\n2,y",
      expected);
}

TEST(CsvTest, ReadsQuotes) {
  ExpectCells("a,b\n\"x,1\",\"say \"\"hi\"\"\"\n", {{"x,1", "say \"hi\""}});
  ExpectCells("a,b\n\"two\nlines\",\"two\r\nmore\"\n", {{"two\nlines", "two\r\nmore"}});
  ExpectCells("a,b\n\"\",\" kept \"\n", {{"", " kept "}});
}

TEST(CsvTest, TrimsUnquotedCells) { ExpectCells("a, b\n 1 ,\tx y \n", {{"1", "x y"}}); }

TEST(CsvTest, SkipsBlankLines) {
  ExpectCells("a,b\n\n1,2\n   \n\n3,4\n\n", {{"1", "2"}, {"3", "4"}});
}

TEST(CsvTest, EmptyCellsAtTheEdges) {
  ExpectCells("a,b,c\n\"\",,\n1,,\n,,3", {{"", "", ""}, {"1", "", ""}, {"", "", "3"}});
}

TEST(CsvTest, HeaderAloneHasNoRows) { ExpectCells("a,b\n", {}); }

TEST(CsvTest, LinesCountThroughQuotedBreaksAndBlankLines) {
  const absl::StatusOr<CsvTable> table = ParseCsv("a,b\n\"1\n1\n1\",x\n\n2,y\r\n3,z\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->Line(0), 2);
  EXPECT_EQ(table->Line(1), 6);
  EXPECT_EQ(table->Line(2), 7);
}

TEST(CsvTest, ErrorsNameTheLine) {
  ExpectError("", "no header line");
  ExpectError("\n\n", "no header line");
  ExpectError("a,,c\n1,2,3\n", "line 1: column 2 of the header has no name");
  ExpectError("a,b,a\n", "line 1: the header has column 'a' twice");
  ExpectError("a,b\n1,2\n3\n", "line 3: 1 cell, but the header has 2 columns");
  ExpectError("a,b\n1,2\n3,4,5\n", "line 3: 3 cells");
  ExpectError("a,b\n\"x\ny\",1\n\"u\nv\"\n", "line 4: 1 cell,");
  ExpectError("a,b\n1,2\n3,4\"4\n", "line 3: a quote in the middle of a cell");
  ExpectError("a,b\n1,2\n\"3,4\n5,6\n", "line 3: a quote in this row is not closed");
}

TEST(CsvTest, RefusesWhatIsNotUtf8) {
  for (const char* bad :
       {"\xFF", "\xC3(", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80",
        "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\x80", "\xE2\x82"}) {
    ExpectError(absl::StrCat("a,b\n1,2\n", bad, ",4\n"), "line 3: invalid UTF-8");
  }
  ExpectCells(
      "a\nK\xC3\xB8"
      "benhavn \xE2\x82\xAC \xF0\x9F\x98\x80\n",
      {{"K\xC3\xB8"
        "benhavn \xE2\x82\xAC \xF0\x9F\x98\x80"}});
}

TEST(CsvTest, ReadsLongCells) {
  const std::string cell(3 << 20, 'x');
  ExpectCells(absl::StrCat("a,b\n\"", cell, "\",1\n"), {{cell, "1"}});
}

TEST(CsvTest, ErrorsKnowOtherDialects) {
  ExpectError("a,b\n\"say \\\"hi\\\"\",1\n", "line 2: a quote after a backslash");
  ExpectError("# a comment\na,b\n1,2\n", "the header begins with '#': if that line is a comment");
  ExpectError("a,b\n# a comment\n1,2\n",
              "line 2: 1 cell, but the header has 2 columns; if this line");
}

// "Größe" in the two forms of Unicode.
constexpr char kComposed[] = "Gr\u00F6\u00DFe";
constexpr char kDecomposed[] = "Gro\u0308\u00DFe";

TEST(CsvTest, TextsOfFilesAreNormal) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/csv_normal_", getpid(), ".csv");
  std::ofstream(path) << kDecomposed << ",\"two\u00A0 words \"\n\u00A0" << kDecomposed
                      << ",\u00A0\n";
  const absl::StatusOr<CsvTable> table = ReadCsv(path);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->names(), ElementsAre(kComposed, "two words"));
  EXPECT_EQ(Cells(*table), (Grid{{kComposed, ""}}));
  EXPECT_EQ(table->Find(kComposed), 0);
  EXPECT_EQ(table->Find(kDecomposed), 0);
  EXPECT_EQ(table->Find(" two  words"), 1);
  EXPECT_EQ(table->Line(0), 2);
  std::ofstream(path) << kDecomposed << "," << kComposed << "\n1,2\n";
  EXPECT_THAT(std::string(ReadCsv(path).status().message()),
              HasSubstr("twice after text normalisation"));
  std::ofstream(path) << "a,\u00A0\n1,2\n";
  EXPECT_THAT(std::string(ReadCsv(path).status().message()),
              HasSubstr("column 2 of the header has no name"));
  std::filesystem::remove(path);
}

TEST(CsvTest, AnOptionIsOneLine) {
  EXPECT_THAT(*ParseCsvLine("a,b"), ElementsAre("a", "b"));
  EXPECT_THAT(*ParseCsvLine(" a , \"b, \"\"c\"\"\" "), ElementsAre("a", "b, \"c\""));
  EXPECT_THAT(*ParseCsvLine("a,"), ElementsAre("a", ""));
  EXPECT_TRUE(ParseCsvLine("")->empty());
  for (const char* line : {"3.5\" disk", "\"a", "a\nb,c"}) {
    EXPECT_EQ(ParseCsvLine(line).status().code(), absl::StatusCode::kInvalidArgument) << line;
  }
}

TEST(CsvTest, FileErrorsNameTheFile) {
  EXPECT_THAT(std::string(ReadCsv("/nowhere/x.csv").status().message()),
              HasSubstr("/nowhere/x.csv: cannot read"));
  EXPECT_FALSE(ReadCsv("/").ok());
  const std::string path = absl::StrCat(::testing::TempDir(), "/csv_test.csv");
  std::ofstream(path) << "a\n1,2\n";
  EXPECT_THAT(std::string(ReadCsv(path).status().message()),
              HasSubstr(absl::StrCat(path, ": line 2")));
  std::ofstream(path) << "";
  EXPECT_THAT(std::string(ReadCsv(path).status().message()), HasSubstr("no header line"));
}

// ParseCsv returns the cells that CsvLine wrote, whatever they are.
TEST(CsvTest, RandomTablesRoundTrip) {
  std::mt19937 random(1);
  const std::vector<std::string> pieces = {"",   "a", "\"", ",",  "\n",       "\r",   "\r\n", ";",
                                           "\t", " ", "7",  "''", "\xC3\xA9", "\"\"", "sep=", "|"};
  for (int round = 0; round < 500; ++round) {
    const size_t columns = 1 + random() % 4;
    const size_t rows = random() % 6;
    Grid grid(rows, std::vector<std::string>(columns));
    for (auto& row : grid) {
      for (std::string& cell : row) {
        for (size_t n = random() % 5; n > 0; --n) cell += pieces[random() % pieces.size()];
      }
    }
    std::vector<std::string> names;
    const char* const separator = round % 2 == 0 ? ";" : "\",";
    for (size_t c = 0; c < columns; ++c) names.push_back(absl::StrCat("column", separator, c));
    std::string content = CsvLine(names);
    for (const auto& row : grid) content += CsvLine(row);
    const absl::StatusOr<CsvTable> table = ParseCsv(content);
    ASSERT_TRUE(table.ok()) << table.status() << "\n" << content;
    EXPECT_EQ(table->names(), names);
    EXPECT_EQ(Cells(*table), grid) << content;
  }
}

TEST(CsvTest, ANameThatBeginsLikeAByteOrderMarkRoundTrips) {
  const std::vector<std::string> names = {
      "\xEF\xBB\xBF"
      "a",
      "b"};
  const absl::StatusOr<CsvTable> table = ParseCsv(CsvLine(names));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->names(), names);
}

// For any bytes the parser returns a table or an error.
TEST(CsvTest, RandomBytesNeverBreakTheParser) {
  std::mt19937 random(2);
  const std::string alphabet = "ab1,,\"\"\n\n\r \xC3\xA9\x00";
  int tables = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string content = "h,i\n";
    for (size_t n = random() % 24; n > 0; --n) content += alphabet[random() % alphabet.size()];
    const absl::StatusOr<CsvTable> table = ParseCsv(content);
    if (!table.ok()) {
      EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    ++tables;
    EXPECT_EQ(table->column_count(), 2);
    for (int64_t row = 1; row < table->row_count(); ++row) {
      EXPECT_GT(table->Line(row), table->Line(row - 1));
    }
  }
  EXPECT_GT(tables, 100);
}

TEST(FormatDoubleTest, RoundTripsExactly) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20'000; ++round) {
    const uint64_t bits = random();
    double value = 0.0;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    const std::string text = FormatDouble(value);
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
  }
  EXPECT_EQ(FormatDouble(0.1), "0.1");
  EXPECT_EQ(FormatDouble(std::nan("")), "");
}

}  // namespace
}  // namespace chorale::client
