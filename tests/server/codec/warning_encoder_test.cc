#include "server/codec/warning_encoder.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Warnings = google::protobuf::RepeatedPtrField<v1::Warning>;

TEST(WarningEncoderTest, WarningsAboutAnUploadedTable) {
  Warnings warnings;
  EncodeTableWarnings({{"x", TextReason::kMixedTypes, 2, "read as categories"}}, "y", 1, &warnings);
  ASSERT_EQ(warnings.size(), 2);
  EXPECT_EQ(warnings[0].reason(), v1::Warning::REASON_DROPPED_ROWS);
  EXPECT_EQ(warnings[0].column(), "y");
  EXPECT_EQ(warnings[0].cell_count(), 1);
  EXPECT_THAT(warnings[0].message(), HasSubstr("1 row without a target value was dropped"));
  EXPECT_EQ(warnings[1].reason(), v1::Warning::REASON_MIXED_TYPES);
  EXPECT_EQ(warnings[1].cell_count(), 2);
  EXPECT_EQ(warnings[1].message(), "column \"x\": read as categories");
  EXPECT_EQ(warnings[1].severity(), v1::Warning::SEVERITY_WARNING);
  warnings.Clear();
  EncodeTableWarnings({{"x", TextReason::kReadAsDates, 2, "read as dates"}}, "y", 0, &warnings);
  EXPECT_EQ(warnings[0].severity(), v1::Warning::SEVERITY_INFO);
  warnings.Clear();
  EncodeTableWarnings({}, "y", 0, &warnings);
  EXPECT_EQ(warnings.size(), 0);
}

TEST(WarningEncoderTest, OneForEachReason) {
  Warnings warnings;
  EncodeWarnings({{.column = "year", .left_out = true, .ignored = 2},
                  {.column = "site", .left_out = true},
                  {.column = "x", .outside_bulk = 1, .unknown_categories = 3},
                  {.column = "z", .replaced_by_nearest = 4},
                  {.column = "month", .outside_bulk = 1, .season_steps = 12},
                  {.column = "y", .clipped_targets = 2, .snapped_to = "integers"},
                  {.column = "day", .no_index = "the server sought no season by the column"},
                  {.column = "quarter", .season_steps = 4, .season_months = 12},
                  {.beyond_training = "the context has 5000 rows"},
                  {.column = "stars", .snapped_to = "integers, at most 5", .beyond_support = 2}},
                 &warnings);
  ASSERT_EQ(warnings.size(), 13);
  const auto expect = [&](int i, v1::Warning::Reason reason, const std::string& column,
                          int64_t cells, const std::string& text) {
    EXPECT_EQ(warnings[i].reason(), reason) << i;
    EXPECT_EQ(warnings[i].column(), column) << i;
    EXPECT_EQ(warnings[i].cell_count(), cells) << i;
    EXPECT_THAT(warnings[i].message(), HasSubstr(text)) << i;
  };
  expect(0, v1::Warning::REASON_DROPPED_COLUMN, "year", 2,
         "column \"year\": all of its cells in the context");
  expect(0, v1::Warning::REASON_DROPPED_COLUMN, "year", 2, "dropped; 2 cells have no effect");
  expect(1, v1::Warning::REASON_DROPPED_COLUMN, "site", 0, "is dropped");
  expect(2, v1::Warning::REASON_OUTLIERS, "x", 1, "1 cell lies far beyond the bulk");
  expect(3, v1::Warning::REASON_UNKNOWN_CATEGORY, "x", 3,
         "3 cells have categories that the context");
  expect(4, v1::Warning::REASON_NEAREST_VALUE, "z", 4,
         "4 cells with values that the context does not contain are treated as");
  expect(5, v1::Warning::REASON_SEASON, "month", 0,
         "the target has a season of 12 steps by this column");
  expect(6, v1::Warning::REASON_OUTLIERS, "month", 1, "1 cell lies far beyond the bulk");
  expect(7, v1::Warning::REASON_CLIPPED_TARGET, "y", 2,
         "2 of the context's values lie so far from all others");
  expect(8, v1::Warning::REASON_SNAPPED, "y", 0,
         "draws and quantiles are snapped to integers; means");
  expect(9, v1::Warning::REASON_NO_INDEX, "day", 0, "the server sought no season by the column");
  expect(10, v1::Warning::REASON_SEASON, "quarter", 0,
         "the target has a season of 12 months by this column");
  EXPECT_EQ(warnings[11].reason(), v1::Warning::REASON_BEYOND_TRAINING);
  EXPECT_EQ(warnings[11].column(), "");
  EXPECT_EQ(warnings[11].message(), "the context has 5000 rows");
  expect(12, v1::Warning::REASON_SNAPPED, "stars", 2,
         "2 of the appended values are not among the possible values of the earlier rows: "
         "integers, at most 5");
  EXPECT_THAT(warnings[12].message(), HasSubstr("encode the context anew"));
  for (const v1::Warning& warning : warnings) {
    const bool info = warning.reason() == v1::Warning::REASON_SEASON ||
                      warning.reason() == v1::Warning::REASON_SNAPPED;
    EXPECT_EQ(warning.severity(), info ? v1::Warning::SEVERITY_INFO : v1::Warning::SEVERITY_WARNING)
        << warning.message();
  }
}

TEST(WarningEncoderTest, WhereNoCellIsKnownTheContextsCategoriesAreNamed) {
  Warnings warnings;
  EncodeWarnings({{.column = "flag",
                   .unknown_categories = 20,
                   .known_categories = {"a", "b", "c"},
                   .known_category_count = 3},
                  {.column = "city",
                   .unknown_categories = 1,
                   .known_categories = {"Bern"},
                   .known_category_count = 5}},
                 &warnings);
  ASSERT_EQ(warnings.size(), 2);
  EXPECT_EQ(warnings[0].reason(), v1::Warning::REASON_UNKNOWN_CATEGORY);
  EXPECT_EQ(warnings[0].cell_count(), 20);
  EXPECT_EQ(warnings[0].message(),
            "column \"flag\": none of its 20 cells contains a category of the context, so all are "
            "treated as missing; the context has \"a\", \"b\", \"c\"");
  EXPECT_THAT(warnings[1].message(),
              AllOf(HasSubstr("none of its 1 cell "), HasSubstr("has \"Bern\", ...")));
}

TEST(WarningEncoderTest, CategoriesOfAppendedRowsAreComparedWithTheBaseRows) {
  Warnings warnings;
  EncodeWarnings({{.column = "flag", .unknown_categories = 1},
                  {.column = "city",
                   .unknown_categories = 2,
                   .known_categories = {"Bern"},
                   .known_category_count = 1}},
                 &warnings, RowUse::kAppended);
  ASSERT_EQ(warnings.size(), 2);
  EXPECT_EQ(warnings[0].message(),
            "column \"flag\": 1 cell has a category that the base rows of the context do not "
            "contain, and is treated as missing until the context is encoded anew");
  EXPECT_EQ(warnings[1].message(),
            "column \"city\": none of its 2 cells contains a category of the base rows of the "
            "context, so all are treated as missing until the context is encoded anew; the base "
            "rows have \"Bern\"");
}

TEST(WarningEncoderTest, BoundedHoweverManyColumns) {
  std::vector<ColumnNote> notes;
  for (int i = 0; i < 1000; ++i) {
    notes.push_back({.column = absl::StrCat(std::string(250, '\\'), i), .outside_bulk = 1});
  }
  v1::PredictResponse message;
  EncodeWarnings(notes, message.mutable_warnings());
  EXPECT_LE(message.ByteSizeLong(), static_cast<size_t>(kMaxWarningBytes));
  EXPECT_GT(message.ByteSizeLong(), static_cast<size_t>(kMaxWarningBytes - 2000));
  const v1::Warning& last = message.warnings(message.warnings_size() - 1);
  EXPECT_EQ(last.message(), absl::StrCat("and ", 1001 - message.warnings_size(), " more warnings"));
  EXPECT_EQ(last.column(), "");
  EXPECT_EQ(last.severity(), v1::Warning::SEVERITY_WARNING);
}

}  // namespace
}  // namespace chorale
