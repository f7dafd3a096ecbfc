#include "engine/data/text_columns.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/data/column_meaning.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

// A column of texts; an empty text is a missing cell.
Column Texts(const std::vector<std::string>& cells) {
  Column column{.name = "x", .type = ColumnType::kText};
  for (const std::string& cell : cells) {
    if (cell.empty()) {
      column.codes.push_back(kMissingCode);
      continue;
    }
    const auto found = std::find(column.categories.begin(), column.categories.end(), cell);
    column.codes.push_back(static_cast<int32_t>(found - column.categories.begin()));
    if (found == column.categories.end()) column.categories.push_back(cell);
  }
  return column;
}

std::string NameOf(TextReason reason) {
  switch (reason) {
    case TextReason::kReadAsDates:
      return "READ_AS_DATES";
    case TextReason::kNumbersAsText:
      return "NUMBERS_AS_TEXT";
    case TextReason::kDatesAsText:
      return "DATES_AS_TEXT";
    case TextReason::kDatesAsNumbers:
      return "DATES_AS_NUMBERS";
    case TextReason::kMixedTypes:
      return "MIXED_TYPES";
    case TextReason::kAllDistinct:
      return "ALL_DISTINCT";
    case TextReason::kLeadingZeros:
      return "LEADING_ZEROS";
    case TextReason::kLargeIntegers:
      return "LARGE_INTEGERS";
  }
  return "";
}

// Each case has a name, cells (null: missing) and the column that they become: kind, then meaning
// and values, or categories in the order of their first cells; and the reason of the warning, if
// there is one. "csv" has the expectations that differ for a file, whose reader replaces marks of
// missing cells such as "n/a". Tests of the clients send the same cases to a server
// (tests/end_to_end/column_forms_test.cc, tests/client/python/column_cases_test.py).
TEST(TextColumnsTest, InfersTheTypesOfAllCases) {
  std::ifstream file(CHORALE_SOURCE_DIR "/tests/client/column_cases.json");
  const Json cases = Json::parse(file);
  ASSERT_GE(cases.size(), 40u);
  for (const Json& expected : cases) {
    SCOPED_TRACE(expected["name"].get<std::string>());
    std::vector<std::string> cells;
    for (const Json& cell : expected["cells"]) {
      cells.push_back(cell.is_null() ? "" : cell.get<std::string>());
    }
    Column column = Texts(cells);
    std::string reason;
    for (const TextWarning& warning : InferType(&column)) reason += NameOf(warning.reason);
    EXPECT_EQ(reason, expected["note"].is_null() ? "" : expected["note"].get<std::string>());
    if (column.type == ColumnType::kCategorical) {
      EXPECT_EQ(expected["kind"], "categorical");
      EXPECT_EQ(Json(column.categories), expected["categories"]);
      continue;
    }
    EXPECT_EQ(expected["kind"], "numeric");
    EXPECT_EQ(MeaningName(column.meaning), expected.value("meaning", ""));
    ASSERT_EQ(column.numbers.size(), expected["values"].size());
    for (size_t row = 0; row < column.numbers.size(); ++row) {
      const Json& value = expected["values"][row];
      EXPECT_EQ(std::isnan(column.numbers[row]), value.is_null()) << row;
      if (!value.is_null()) EXPECT_EQ(column.numbers[row], value.get<double>()) << row;
    }
  }
}

TEST(TextColumnsTest, EqualNumbersAreOneCategory) {
  Column column = Texts({"3", "3.0", "03", "x", " 3 ", "1e3", "-0.0"});
  InferType(&column);
  EXPECT_EQ(column.type, ColumnType::kCategorical);
  EXPECT_THAT(column.categories, ElementsAre("3", "03", "x", "1000", "0"));
  EXPECT_THAT(column.codes, ElementsAre(0, 0, 1, 2, 0, 3, 4));
}

TEST(TextColumnsTest, LargeIntegersKeepTheirDigits) {
  Column column = Texts({"9007199254740993", "9007199254740992", "", "7"});
  const std::vector<TextWarning> warnings = InferType(&column);
  EXPECT_EQ(column.type, ColumnType::kCategorical);
  EXPECT_THAT(column.categories, ElementsAre("9007199254740993", "9007199254740992", "7"));
  EXPECT_THAT(column.codes, ElementsAre(0, 1, kMissingCode, 2));
  ASSERT_EQ(warnings.size(), 1);
  EXPECT_EQ(warnings[0].reason, TextReason::kLargeIntegers);
  EXPECT_EQ(warnings[0].cells, 1);
  EXPECT_THAT(warnings[0].message, HasSubstr("(first: \"9007199254740993\" in row 0)"));
}

TEST(TextColumnsTest, TextsAreComparedInNormalForm) {
  Column column = Texts({"Gro\u00DF", "e\u0301", "\u00E9", " Gro\u00DF\u200B", "  "});
  EXPECT_THAT(InferType(&column), IsEmpty());
  EXPECT_THAT(column.categories, ElementsAre("Gro\u00DF", "\u00E9"));
  EXPECT_THAT(column.codes, ElementsAre(0, 1, 1, 0, kMissingCode));
}

TEST(TextColumnsTest, WarningsNameTheFirstCell) {
  Column column = Texts({"1.5", "", "broken", "4.5", "none", "6.5", "7"});
  const std::vector<TextWarning> warnings = InferType(&column);
  ASSERT_EQ(warnings.size(), 1);
  EXPECT_EQ(warnings[0].column, "x");
  EXPECT_EQ(warnings[0].cells, 2);
  EXPECT_THAT(warnings[0].message,
              HasSubstr("because 2 of its 6 cells are not numbers (first: \"broken\" in row 2)"));
}

TEST(TextColumnsTest, ACellOfEachMeaning) {
  EXPECT_EQ(ParseCell("2.5", Meaning::kNumber), 2.5);
  EXPECT_EQ(ParseCell("2024-01-31", Meaning::kNumber), std::nullopt);
  EXPECT_EQ(ParseCell("2024-01-31 12:00", Meaning::kDate), 19753.5);
  EXPECT_EQ(ParseCell("19753", Meaning::kDate), 19753);
  EXPECT_EQ(ParseCell("20240131", Meaning::kDate), std::nullopt);
  EXPECT_EQ(ParseCell("YES", Meaning::kBoolean), 1);
  EXPECT_EQ(ParseCell("0.0", Meaning::kBoolean), 0);
  EXPECT_EQ(ParseCell("2", Meaning::kBoolean), std::nullopt);
  EXPECT_EQ(ParseCell("1.5", Meaning::kDuration), 1.5);
}

}  // namespace
}  // namespace chorale
