#include "client/cpp/column_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace chorale::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

TEST(ParseNumberTest, TakesFiniteDecimalsOnly) {
  EXPECT_EQ(ParseNumber("1"), 1.0);
  EXPECT_EQ(ParseNumber("-1.5e3"), -1500.0);
  EXPECT_EQ(ParseNumber("+2"), 2.0);
  EXPECT_EQ(ParseNumber(".5"), 0.5);
  EXPECT_EQ(ParseNumber("1e-400"), 0.0);
  EXPECT_EQ(ParseNumber("4.9e-324"), 4.9e-324);
  for (const char* text : {"", "+", "-", "+-1", "1x", "1 2", "0x10", "inf", "-inf", "nan", "1e400",
                           "1,5", "e5", "--1"}) {
    EXPECT_EQ(ParseNumber(text), std::nullopt) << text;
  }
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
  EXPECT_THAT(InferError("n\n1\n", numeric), HasSubstr("given twice"));
}

TEST(InferTypesTest, NotesTheStrayWordInAColumnOfNumbers) {
  const TypedTable table = Infer("n\n1\n2\n3\n4\n5\n6\n7\n8\n9\nabc\n");
  ASSERT_EQ(table.notes.size(), 1u);
  EXPECT_THAT(table.notes[0], HasSubstr("1 of its 10 cells, first 'abc' on line 11"));
}

TEST(DescribeColumnsTest, ShowsTypeRangeAndMissing) {
  const TypedTable table = Infer("n,c\n1,a\n2.5,b\n,a\n");
  const std::string text = DescribeColumns(table.frame);
  EXPECT_THAT(text, HasSubstr("n       numeric            1  1 to 2.5\n"));
  EXPECT_THAT(text, HasSubstr("c       categorical        0  2 categories\n"));
}

}  // namespace
}  // namespace chorale::client
