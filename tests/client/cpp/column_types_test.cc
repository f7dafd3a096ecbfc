#include "client/cpp/column_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TypedTable Infer(absl::string_view content, const TypeOptions& options = {}) {
  const absl::StatusOr<CsvTable> csv = ParseCsv(content);
  EXPECT_TRUE(csv.ok()) << csv.status();
  absl::StatusOr<TypedTable> table = InferTypes(*csv, options);
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? *table : TypedTable();
}

std::string InferError(absl::string_view content, const TypeOptions& options) {
  const absl::StatusOr<TypedTable> table = InferTypes(*ParseCsv(content), options);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(table.status().message());
}

TEST(InferTypesTest, NumericWhenEveryCellIsANumber) {
  const TypedTable table = Infer("n,c,m\n1,a,NA\n-2.5e1,b,?\n,a,\n");
  ASSERT_EQ(table.frame.columns().size(), 3u);
  const DataColumn& n = table.frame.columns()[0];
  EXPECT_EQ(n.kind, ColumnKind::kNumeric);
  EXPECT_EQ(n.numbers[1], -25.0);
  EXPECT_TRUE(std::isnan(n.numbers[2]));
  const DataColumn& c = table.frame.columns()[1];
  EXPECT_EQ(c.kind, ColumnKind::kCategorical);
  EXPECT_THAT(c.categories, ElementsAre("a", "b"));
  EXPECT_THAT(c.codes, ElementsAre(0, 1, 0));
  EXPECT_EQ(table.frame.columns()[2].kind, ColumnKind::kNumeric);
  EXPECT_EQ(table.frame.columns()[2].missing_count(), 3);
  EXPECT_THAT(table.notes, IsEmpty());
}

TEST(InferTypesTest, MissingTokens) {
  const TypedTable table = Infer("c\nx\nNA\nN/A\nNaN\nnull\nNone\n?\n\"\"\n");
  EXPECT_THAT(table.frame.columns()[0].codes, ElementsAre(0, -1, -1, -1, -1, -1, -1, -1));
  TypeOptions options;
  options.missing = {"-99"};
  const TypedTable other = Infer("n,c\n1,NA\n-99,x\n", options);
  EXPECT_EQ(other.frame.columns()[0].missing_count(), 1);
  EXPECT_THAT(other.frame.columns()[1].categories, ElementsAre("NA", "x"));
}

TEST(InferTypesTest, OverridesWin) {
  TypeOptions options;
  options.categorical = {"zip"};
  options.numeric = {"n"};
  const TypedTable table = Infer("zip,n\n01234,1\n1234,NA\n", options);
  EXPECT_THAT(table.frame.columns()[0].categories, ElementsAre("01234", "1234"));
  EXPECT_EQ(table.frame.columns()[1].kind, ColumnKind::kNumeric);
}

TEST(InferTypesTest, ErrorsNameLineAndColumn) {
  TypeOptions numeric;
  numeric.numeric = {"n"};
  EXPECT_THAT(InferError("n\n1\n\nabc\n", numeric), HasSubstr("line 4, column 'n': 'abc'"));
  EXPECT_THAT(InferError("n\ninf\n", numeric), HasSubstr("'inf' is not a finite number"));
  EXPECT_THAT(InferError("m\n1\n", numeric), HasSubstr("no column 'n'"));
  numeric.categorical = {"n"};
  EXPECT_THAT(InferError("n\n1\n", numeric), HasSubstr("set twice"));
}

// The note on the only column, or an empty text.
std::string NoteOn(absl::string_view content, const TypeOptions& options = {}) {
  const TypedTable table = Infer(content, options);
  EXPECT_LE(table.notes.size(), 1u);
  return table.notes.empty() ? "" : table.notes[0].text;
}

ColumnKind KindOf(absl::string_view content) { return Infer(content).frame.columns()[0].kind; }

TEST(InferTypesTest, MarksOfMissingCellsLeaveAColumnNumeric) {
  for (const char* mark :
       {"NULL",     "null", "Null", "NA",   "na",     "N/A",     "n/a",     "#N/A", "#n/a",
        "#N/A N/A", "#NA",  "<NA>", "<na>", "NaN",    "NAN",     "nan",     "-NaN", "-nan",
        "NaT",      "nat",  "None", "none", "NONE",   "-1.#IND", "1.#QNAN", "\\N",  "?",
        "-",        "--",   ".",    "..",   "\u2013", "\u2014",  "n.a."}) {
    const TypedTable table = Infer(absl::StrCat("n\n1\n", mark, "\n2\n", mark, "\n"));
    ASSERT_EQ(table.frame.columns().size(), 1u);
    EXPECT_EQ(table.frame.columns()[0].kind, ColumnKind::kNumeric) << mark;
    EXPECT_EQ(table.frame.columns()[0].missing_count(), 2) << mark;
  }
  // What is no mark in a column of categories is one of them.
  EXPECT_THAT(Infer("c\nnone\nlow\n-\n.\nNULL\n").frame.columns()[0].categories,
              ElementsAre("none", "low", "-", "."));
  EXPECT_EQ(KindOf("n\n-\n-\n"), ColumnKind::kCategorical);
  EXPECT_EQ(KindOf("n\nNULL\n\\N\n"), ColumnKind::kNumeric) << "an empty column, as before";
}

TEST(InferTypesTest, ADashInAColumnOfNumbersIsNoted) {
  EXPECT_EQ(NoteOn("n\n1\n-\n2\n-\n"),
            "column 'n' is read as numbers, and 2 of its cells as missing: '-'");
}

TEST(InferTypesTest, AMarkOfTheUsersIsANumberInAnySpelling) {
  TypeOptions options;
  options.missing = {"-999"};
  const TypedTable table = Infer("n\n1\n-999\n-999.0\nNA\n-9.99e2\n", options);
  EXPECT_EQ(table.frame.columns()[0].missing_count(), 4);
  EXPECT_THAT(table.notes, IsEmpty());
}

TEST(InferTypesTest, AnyOtherTextInAColumnOfNumbersIsNoted) {
  EXPECT_EQ(
      NoteOn("n\n1\nn.d.\n3\nn.d.\n"),
      "column 'n' is read as categories because 2 of its 4 cells are not numbers (first: 'n.d.' "
      "on line 3); if 'n.d.' stands for missing cells, use --missing=n.d.; if the column is "
      "categorical, use --categorical=n");
  EXPECT_THAT(NoteOn("n\n1\n2\n3\n4\n5\n6\n7\n8\n9\nabc\n"),
              HasSubstr("1 of its 10 cells is not a number (first: 'abc' on line 11)"));
  EXPECT_THAT(
      NoteOn("\"a, b\"\n1\n\"not, known\"\n"),
      AllOf(HasSubstr("--missing='\"not, known\"'"), HasSubstr("--categorical='\"a, b\"'")));
  // Some texts that come again among many: those are the likely ones.
  EXPECT_THAT(NoteOn("n\n1\na\nb\nc\nd\nunknown\nunknown\n"), HasSubstr("--missing=unknown;"));
  EXPECT_THAT(NoteOn("n\n1\na\nb\nc\nd\n"),
              AllOf(HasSubstr("'a', 'b', 'c' and 1 other (first: 'a' on line 3)"),
                    Not(HasSubstr("--missing"))));
  TypeOptions options;
  options.categorical = {"n"};
  EXPECT_EQ(NoteOn("n\n1\nn.d.\n", options), "");
  EXPECT_EQ(NoteOn("c\nx\ny\n"), "");
}

TEST(InferTypesTest, NumbersInOtherSpellingsAreNoted) {
  for (const char* cell : {"1 234", "3%", "$1.50", "\"1,5\"", "\"1.234,5\"", "inf"}) {
    EXPECT_THAT(NoteOn(absl::StrCat("n\n1\n", cell, "\n")),
                AllOf(HasSubstr("looks like a number in another notation: write numbers like "
                                "-1234.5"),
                      Not(HasSubstr("--missing"))));
    EXPECT_THAT(
        NoteOn(absl::StrCat("n\n", cell, "\n", cell, "\n")),
        HasSubstr(
            "is read as categories, but 2 of its 2 cells look like numbers in another notation"));
  }
  EXPECT_EQ(NoteOn("n\n1\n\u2212"
                   "5\n"),
            "");
  EXPECT_EQ(Infer("n\n1\n\u2212"
                  "5\n")
                .frame.columns()[0]
                .numbers[1],
            -5.0);
}

TEST(InferTypesTest, DatesAreNoted) {
  EXPECT_EQ(NoteOn("d\n2024-01-31\n2024-02-01\n"),
            "column 'd' is read as dates (days since 1970-01-01); --categorical=d keeps the texts");
  EXPECT_EQ(NoteOn("d\n31.01.2024\n1.2.2024\n"),
            "column 'd' is read as categories, which have no order, but 2 of its 2 cells look like "
            "dates (first: '31.01.2024' on line 2): write dates like 2024-01-31, and months like "
            "2024-01");
  EXPECT_EQ(
      NoteOn("d\n2024-01-31\n2023-02-30\n2024-03-01\n"),
      "column 'd' is read as categories, which have no order, because 1 of its 3 cells is not "
      "a date like the others (first: '2023-02-30' on line 3): write dates like 2024-01-31, "
      "and months like 2024-01");
  EXPECT_EQ(NoteOn("d\n20240131\n20240201\n"),
            "column 'd' is read as numbers, but all look like dates written as numbers (first: "
            "'20240131' on line 2), which are not evenly spaced: write dates like 2024-01-31, "
            "and months like 2024-01");
  EXPECT_EQ(NoteOn("d\n201501\n201502\n201512.0\n"),
            "column 'd' is read as numbers, but all look like dates written as numbers (first: "
            "'201501' on line 2), which are not evenly spaced: write dates like 2024-01-31, "
            "and months like 2024-01");
  const TypedTable table = Infer("d\n2024-01-31\n-\n");
  ASSERT_EQ(table.notes.size(), 2u);
  EXPECT_EQ(table.notes[1].text, "column 'd' is read as dates, and 1 of its cells as missing: '-'");
}

TEST(InferTypesTest, OptionsComeBeforeBooleansAndDates) {
  TypeOptions categorical;
  categorical.categorical = {"d", "b"};
  const TypedTable table = Infer("d,b\n2024-01-31,TRUE\n2024-02-01,FALSE\n", categorical);
  EXPECT_THAT(table.frame.columns()[0].categories, ElementsAre("2024-01-31", "2024-02-01"));
  EXPECT_THAT(table.frame.columns()[1].categories, ElementsAre("TRUE", "FALSE"));
  EXPECT_THAT(table.notes, IsEmpty());
  TypeOptions numeric;
  numeric.numeric = {"d"};
  EXPECT_THAT(InferError("d\n2024-01-31\n", numeric), HasSubstr("is not a finite number"));
}

TEST(InferTypesTest, ColumnsOfDifferentTextsAreNoted) {
  std::string content = "id\n";
  for (int i = 0; i < 20; ++i) absl::StrAppend(&content, "id-", i * i, "\n");
  EXPECT_EQ(NoteOn(content),
            "column 'id' has 20 distinct texts in 20 cells, which are hardly informative as "
            "categories: if these are IDs or free text, drop the column with --drop=id");
  TypeOptions given;
  given.categorical = {"id"};
  EXPECT_EQ(NoteOn(content, given), "");
}

// Each name looked up among all others, this would take a minute.
TEST(InferTypesTest, ManyColumnsTakeWorkInProportion) {
  constexpr int kColumns = 150'000;
  std::vector<std::string> names(kColumns);
  for (int i = 0; i < kColumns; ++i) names[i] = absl::StrCat("column ", i);
  const std::string cells = absl::StrJoin(std::vector<std::string>(kColumns, "1"), ",");
  const CsvTable csv = *ParseCsv(absl::StrCat(CsvLine(names), cells, "\n"));
  TypeOptions options;
  options.numeric.assign(names.begin(), names.begin() + kColumns / 2);
  options.categorical.assign(names.begin() + kColumns / 2, names.end());
  const std::clock_t start = std::clock();
  const absl::StatusOr<TypedTable> table = InferTypes(csv, options);
  ASSERT_TRUE(table.ok()) << table.status();
  for (const std::string& name : names) ASSERT_NE(table->frame.Find(name), nullptr);
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 20);
}

TEST(ReadNumbersTest, CellsAreReadByTheMeaningOfTheColumn) {
  const CsvTable csv = *ParseCsv(
      "b,d,x\nTRUE,2012-01-01,1\nno,15341,2\n1,2012-01-01T12:00,3\n0.0,,4\nNA,2012-01,5\n");
  const absl::StatusOr<std::vector<double>> booleans = ReadNumbers(csv, 0, Meaning::kBoolean, {});
  ASSERT_TRUE(booleans.ok()) << booleans.status();
  EXPECT_THAT(std::vector<double>(booleans->begin(), booleans->begin() + 4),
              ElementsAre(1, 0, 1, 0));
  EXPECT_TRUE(std::isnan(booleans->at(4)));
  const absl::StatusOr<std::vector<double>> dates = ReadNumbers(csv, 1, Meaning::kDate, {});
  ASSERT_TRUE(dates.ok()) << dates.status();
  EXPECT_THAT(std::vector<double>(dates->begin(), dates->begin() + 3),
              ElementsAre(15340, 15341, 15340.5));
  EXPECT_EQ(dates->at(4), 15340);
  EXPECT_THAT(std::string(ReadNumbers(csv, 0, Meaning::kDate, {}).status().message()),
              HasSubstr("line 2, column 'b': 'TRUE' is neither a date like 2024-01-31"));
  for (const char* number : {"20210610", "1623283200", "-800000"}) {
    const CsvTable other = *ParseCsv(absl::StrCat("d\n", number, "\n"));
    EXPECT_THAT(
        std::string(ReadNumbers(other, 0, Meaning::kDate, {}).status().message()),
        HasSubstr("is neither a date like 2024-01-31 nor a number of days since 1970-01-01"))
        << number;
    EXPECT_TRUE(ReadNumbers(other, 0, Meaning::kNumber, {}).ok());
  }
  EXPECT_THAT(std::string(ReadNumbers(csv, 1, Meaning::kBoolean, {}).status().message()),
              HasSubstr("'2012-01-01' is neither true nor false"));
  EXPECT_THAT(std::string(ReadNumbers(csv, 2, Meaning::kBoolean, {}).status().message()),
              HasSubstr("line 3, column 'x': '2' is neither true nor false"));
  EXPECT_THAT(std::string(ReadNumbers(csv, 1, Meaning::kDuration, {}).status().message()),
              HasSubstr("is not a number of days"));
  EXPECT_THAT(std::string(ReadNumbers(csv, 1, Meaning::kNumber, {}).status().message()),
              HasSubstr("is not a finite number"));
}

TEST(InferTypesTest, CodesThatLookLikeNumbersAreNoted) {
  EXPECT_EQ(
      NoteOn("zip\n01234\n12345\n"),
      "column 'zip' is read as numbers, but 1 of its 2 cells begins with a zero (first: '01234' on "
      "line 2): if these are codes, use --categorical=zip");
  EXPECT_THAT(NoteOn("id\n9007199254740993\n1\n"),
              HasSubstr("1 integer beyond 2^53 that loses its last digits"));
  TypeOptions options;
  options.categorical = {"zip"};
  EXPECT_EQ(NoteOn("zip\n01234\n12345\n", options), "");
}

TEST(InferTypesTest, CategoriesThatCountAsMissingAreNoted) {
  EXPECT_EQ(
      NoteOn("c\nx\nNA\nNone\nNA\n\"\"\n"),
      "column 'c' is read as categories, and 3 of its cells as missing: 'NA', 'None'; if these are "
      "categories, list the texts of missing cells with --missing=TEXT,..., or use --missing '' if "
      "there are none");
  TypeOptions none;
  none.missing = {""};
  const TypedTable table = Infer("c\nx\nNA\n\"\"\n", none);
  EXPECT_THAT(table.frame.columns()[0].categories, ElementsAre("x", "NA"));
  EXPECT_THAT(table.notes, IsEmpty());
}

TEST(DescribeColumnsTest, ShowsTypeRangeAndMissing) {
  const TypedTable table = Infer("n,c\n1,a\n2.5,b\n,a\n");
  const std::string text = DescribeColumns(table.frame);
  EXPECT_THAT(text, HasSubstr("n       numeric            1  1 to 2.5\n"));
  EXPECT_THAT(text, HasSubstr("c       categorical        0  2 categories\n"));
  const std::string meanings =
      DescribeColumns(Infer("d,b\n2012-01,TRUE\n2012-12-31T12:00,false\n").frame);
  EXPECT_THAT(meanings, HasSubstr("d       date               0  2012-01-01 to 2012-12-31\n"));
  EXPECT_THAT(meanings, HasSubstr("b       boolean            0  0 to 1\n"));
}

}  // namespace
}  // namespace chorale::client
