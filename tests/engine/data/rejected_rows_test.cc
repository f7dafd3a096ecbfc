// Rows that MatchAppendedRows rejects.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/error_details.h"
#include "engine/data/append_rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/data/make_column.h"
#include "tests/engine/data/table_and_rows.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

struct RejectedCase {
  const char* name;
  std::function<void(Table&)> spoil;
  std::string field;
  std::string message;
  MissingTargets missing = MissingTargets::kReject;
};

class RejectedRowsTest : public testing::TestWithParam<RejectedCase> {};

TEST_P(RejectedRowsTest, NamesTheField) {
  Table rows = Rows();
  GetParam().spoil(rows);
  const absl::Status status =
      MatchAppendedRows(Base(), rows, GetParam().missing, Limits()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorField(status), GetParam().field);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, RejectedRowsTest,
    testing::Values(
        RejectedCase{"NoTarget", [](Table& rows) { rows.columns.erase(rows.columns.begin()); },
                     "rows.columns", "the target column \"y\" is missing"},
        RejectedCase{"NoFeature", [](Table& rows) { rows.columns.pop_back(); }, "rows.columns",
                     "the column \"age\" is missing"},
        RejectedCase{"UnknownColumn",
                     [](Table& rows) {
                       rows.columns.push_back(Numbers("height", {1, 2}));
                     },
                     "rows.columns[\"height\"]",
                     "is neither a feature nor the target of the context"},
        RejectedCase{"TwoTargets",
                     [](Table& rows) {
                       rows.columns.push_back(Numbers("y", {1, 2}));
                     },
                     "rows.columns", "two columns have the name \"y\""},
        RejectedCase{"NoRows",
                     [](Table& rows) {
                       for (Column& column : rows.columns) {
                         column.numbers.clear();
                         column.codes.clear();
                       }
                     },
                     "rows", "needs at least one row"},
        RejectedCase{"ShortTarget", [](Table& rows) { rows.columns[0].numbers.pop_back(); },
                     "rows.columns[\"y\"].numeric.values", "has 1 cells, but the table has 2 rows"},
        RejectedCase{"ShortFeature", [](Table& rows) { ColumnOf(rows, "age").numbers.pop_back(); },
                     "rows.columns[\"age\"].numeric.values", "has 1 cells"},
        RejectedCase{"CategoricalTarget",
                     [](Table& rows) {
                       rows.columns[0] = Categories("y", {"a"}, {0, 0});
                     },
                     "rows.columns[\"y\"]", "must be numeric, but contains texts such as \"a\""},
        RejectedCase{"TextTarget",
                     [](Table& rows) {
                       rows.columns[0] = Texts("y", {"1", "b"}, {0, 1});
                     },
                     "rows.columns[\"y\"]", "must be numeric, but contains texts"},
        RejectedCase{"MissingTarget", [](Table& rows) { rows.columns[0].numbers[1] = NAN; },
                     "rows.columns[\"y\"].numeric.values[1]", "is missing or infinite"},
        RejectedCase{"InfiniteTarget",
                     [](Table& rows) {
                       rows.columns[0].numbers[1] = std::numeric_limits<double>::infinity();
                     },
                     "rows.columns[\"y\"].numeric.values[1]", "infinite", MissingTargets::kDrop},
        RejectedCase{"NoTargetValues",
                     [](Table& rows) {
                       rows.columns[0].numbers = {NAN, NAN};
                     },
                     "rows.columns[\"y\"]", "has no values", MissingTargets::kDrop},
        RejectedCase{"BooleanTarget",
                     [](Table& rows) { rows.columns[0].meaning = Meaning::kBoolean; },
                     "rows.columns[\"y\"].numeric.values[0]", "is 4; a boolean must be 0 or 1"},
        RejectedCase{"InfiniteFeature",
                     [](Table& rows) {
                       ColumnOf(rows, "age").numbers[1] = std::numeric_limits<double>::infinity();
                     },
                     "rows.columns[\"age\"].numeric.values[1]", "is infinite"},
        RejectedCase{"NoBoolean", [](Table& rows) { ColumnOf(rows, "member").numbers[1] = 2; },
                     "rows.columns[\"member\"].numeric.values[1]", "a boolean must be 0 or 1"},
        RejectedCase{"CategoriesForNumbers",
                     [](Table& rows) {
                       ColumnOf(rows, "age") = Categories("age", {"a"}, {0, 0});
                     },
                     "rows.columns[\"age\"]", "is categorical but numeric in the context"},
        RejectedCase{"NumbersForCategories",
                     [](Table& rows) {
                       ColumnOf(rows, "city") = Numbers("city", {1, 2});
                     },
                     "rows.columns[\"city\"]", "whose categories are not numbers"},
        RejectedCase{"TextThatIsNoNumber",
                     [](Table& rows) {
                       ColumnOf(rows, "age") = Texts("age", {"1", "x"}, {0, 1});
                     },
                     "rows.columns[\"age\"].strings.values[1]", "requires a finite number"},
        RejectedCase{"DatesForNumbers",
                     [](Table& rows) { ColumnOf(rows, "age").meaning = Meaning::kDate; },
                     "rows.columns[\"age\"].numeric.meaning",
                     "is date, but the context's column has number"},
        RejectedCase{"DurationsForDates",
                     [](Table& rows) { ColumnOf(rows, "day").meaning = Meaning::kDuration; },
                     "rows.columns[\"day\"].numeric.meaning",
                     "is duration, but the context's column has date"},
        RejectedCase{"CodeOfText",
                     [](Table& rows) {
                       ColumnOf(rows, "city") = Texts("city", {"a"}, {0, 1});
                     },
                     "rows.columns[\"city\"].categorical.codes[1]", "is 1; a code must be"},
        RejectedCase{
            "LongCategory",
            [](Table& rows) { ColumnOf(rows, "city").categories[0] = std::string(300, 'x'); },
            "rows.columns[\"city\"].categorical.categories[0]", "the limit is 256"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace chorale
