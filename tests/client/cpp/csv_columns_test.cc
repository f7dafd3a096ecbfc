#include "client/cpp/csv_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/shell_word.h"

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DataFrame Read(absl::string_view content, const ColumnOptions& options = {}) {
  const absl::StatusOr<CsvTable> csv = ParseCsv(content);
  EXPECT_TRUE(csv.ok()) << csv.status();
  absl::StatusOr<DataFrame> frame = ReadColumns(*csv, options);
  EXPECT_TRUE(frame.ok()) << frame.status();
  return frame.ok() ? *frame : DataFrame();
}

std::string ReadError(absl::string_view content, const ColumnOptions& options) {
  const absl::StatusOr<DataFrame> frame = ReadColumns(*ParseCsv(content), options);
  EXPECT_EQ(frame.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(frame.status().message());
}

TEST(ReadColumnsTest, ColumnsAreStringsForTheServer) {
  const DataFrame frame = Read("n,c,d\n1,a,2024-01-31\n-2.5e1,NA,\n,?,2024\n");
  ASSERT_EQ(frame.columns().size(), 3u);
  for (const DataColumn& column : frame.columns()) EXPECT_EQ(column.kind, ColumnKind::kStrings);
  EXPECT_THAT(frame.Find("n")->strings, ElementsAre("1", "-2.5e1", ""));
  EXPECT_THAT(frame.Find("c")->strings, ElementsAre("a", "", ""));
  EXPECT_THAT(frame.Find("d")->strings, ElementsAre("2024-01-31", "", "2024"));
}

TEST(ReadColumnsTest, OptionsSetTypes) {
  ColumnOptions options;
  options.categorical = {"zip"};
  options.numeric = {"n"};
  options.dropped = {"note"};
  const DataFrame frame = Read("zip,note,n\n01234,x,1\n1234,y,NA\nNA,z,-3\n", options);
  ASSERT_EQ(frame.columns().size(), 2u);
  EXPECT_THAT(frame.Find("zip")->categories, ElementsAre("01234", "1234"));
  EXPECT_THAT(frame.Find("zip")->codes, ElementsAre(0, 1, kMissingCategory));
  const DataColumn& n = *frame.Find("n");
  EXPECT_EQ(n.kind, ColumnKind::kNumeric);
  EXPECT_EQ(n.meaning, Meaning::kNumber);
  EXPECT_EQ(n.numbers[0], 1);
  EXPECT_TRUE(std::isnan(n.numbers[1]));
}

TEST(ReadColumnsTest, ErrorsNameLineAndColumn) {
  ColumnOptions numeric;
  numeric.numeric = {"n"};
  EXPECT_THAT(ReadError("n\n1\n\nabc\n", numeric), HasSubstr("line 4, column 'n': 'abc'"));
  EXPECT_THAT(ReadError("n\ninf\n", numeric), HasSubstr("'inf' is not a finite number"));
  EXPECT_THAT(ReadError("n\n\"1,5\"\n", numeric), HasSubstr("write numbers like -1234.5"));
  EXPECT_THAT(ReadError("n\n2024-01-31\n", numeric), HasSubstr("is not a finite number"));
  EXPECT_THAT(ReadError("m\n1\n", numeric), HasSubstr("no column 'n'"));
  numeric.categorical = {"n"};
  EXPECT_THAT(ReadError("n\n1\n", numeric), HasSubstr("set twice"));
}

TEST(ReadColumnsTest, DefaultMarksOfMissingCells) {
  for (const char* mark :
       {"NULL", "null", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan", "-NaN",
        "-nan", "NaT", "None", "-1.#IND", "1.#QNAN", "\\N", "?"}) {
    const DataFrame frame = Read(absl::StrCat("n\n1\n", mark, "\n"));
    EXPECT_THAT(frame.columns()[0].strings, ElementsAre("1", "")) << mark;
  }
  EXPECT_THAT(Read("c\nnone\nNone\n-\n.\nna\n").columns()[0].strings,
              ElementsAre("none", "", "-", ".", "na"));
}

TEST(ReadColumnsTest, MarksOfTheUser) {
  ColumnOptions options;
  options.missing = {"-999", "unknown", "007"};
  EXPECT_THAT(
      Read("n\n-999.0\n-9.99e2\nNA\nunknown\nUnknown\n7\n007\n", options).columns()[0].strings,
      ElementsAre("", "", "", "", "Unknown", "7", ""));
  options.missing = {"", "x"};
  EXPECT_THAT(Read("c\nx\nNA\n\"\"\nNone\n", options).columns()[0].strings,
              ElementsAre("", "NA", "", "None"));
}

// If each name were looked up among all others, this would take a minute.
TEST(ReadColumnsTest, ManyColumnsTakeWorkInProportion) {
  constexpr int kColumns = 150'000;
  std::vector<std::string> names(kColumns);
  for (int i = 0; i < kColumns; ++i) names[i] = absl::StrCat("column ", i);
  const std::string cells = absl::StrJoin(std::vector<std::string>(kColumns, "1"), ",");
  const CsvTable csv = *ParseCsv(absl::StrCat(CsvLine(names), cells, "\n"));
  ColumnOptions options;
  options.numeric.assign(names.begin(), names.begin() + kColumns / 2);
  options.categorical.assign(names.begin() + kColumns / 2, names.end());
  const std::clock_t start = std::clock();
  const absl::StatusOr<DataFrame> frame = ReadColumns(csv, options);
  ASSERT_TRUE(frame.ok()) << frame.status();
  for (const std::string& name : names) ASSERT_NE(frame->Find(name), nullptr);
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 20);
}

TEST(NoteOnMarksTest, ListsDefaultMarks) {
  const CsvTable csv = *ParseCsv("c\nx\nNA\nNone\nNA\n\"\"\n");
  EXPECT_EQ(NoteOnMarks(csv, 0, {}),
            "column 'c' is categorical, and 3 of its cells are read as missing: 'NA', 'None'; if "
            "these are categories, use --missing ''");
  EXPECT_EQ(NoteOnMarks(csv, 0, {""}), "");
  EXPECT_EQ(NoteOnMarks(csv, 0, {"NA", "None"}), "") << "marks of the user";
}

TEST(AsOptionValueTest, QuotesForCsvAndTheShell) {
  EXPECT_EQ(AsOptionValue("zip"), "zip");
  EXPECT_EQ(AsOptionValue("a, b"), "'\"a, b\"'");
  EXPECT_EQ(AsOptionValue("it's"), R"('it'\''s')");
}

}  // namespace
}  // namespace chorale::client
