#include "engine/data/query_columns.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/data/make_column.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const FeatureColumns kContext({{"age", ColumnType::kNumeric}, {"city", ColumnType::kCategorical}});

void ExpectRefused(std::vector<Column> columns, const std::string& field,
                   const std::string& message) {
  Table table;
  table.columns = std::move(columns);
  const absl::Status status = MatchQueryRows(kContext, table).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorField(status), field);
  EXPECT_THAT(status.message(), HasSubstr(message));
}

TEST(QueryColumnsTest, MatchedByNameInTheContextsOrder) {
  Table table;
  table.columns = {Categories("city", {"Rome"}, {0, kMissingCode}),
                   Numbers("age", {1, std::nan("")})};
  const auto matched = MatchQueryRows(kContext, table);
  ASSERT_TRUE(matched.ok()) << matched.status();
  EXPECT_THAT(*matched, ElementsAre(&table.columns[1], &table.columns[0]));
}

TEST(QueryColumnsTest, NamesThatLookEqualAreEqual) {
  const FeatureColumns context({{"Gr\u00F6\u00DFe", ColumnType::kNumeric},
                                {"a b", ColumnType::kNumeric},
                                {"a  b", ColumnType::kNumeric}});
  Table table;
  table.columns = {Numbers("a  b", {1}), Numbers("Gro\u0308\u00DFe\u00A0", {2}),
                   Numbers("a b", {3})};
  const auto matched = MatchQueryRows(context, table);
  ASSERT_TRUE(matched.ok()) << matched.status();
  EXPECT_THAT(*matched, ElementsAre(&table.columns[1], &table.columns[2], &table.columns[0]));
}

TEST(QueryColumnsTest, RefusesOtherColumns) {
  const Column age = Numbers("age", {1, 2});
  const Column city = Categories("city", {"Rome"}, {0, 0});
  ExpectRefused({}, "rows.columns", "\"age\" is missing");
  ExpectRefused({age}, "rows.columns",
                "the column \"city\" is missing; the context's feature columns are \"age\" "
                "(numeric), \"city\" (categorical)");
  ExpectRefused({age, city, Numbers("extra", {1, 2})}, "rows.columns[\"extra\"]",
                "is not a feature column of the context");
  ExpectRefused({age, city, Numbers("y", {1, 2})}, "rows.columns[\"y\"]",
                "is not a feature column of the context");
  ExpectRefused({age, city, age}, "rows.columns", "two columns have the name \"age\"");
  ExpectRefused({age, Numbers("city", {1, 2})}, "rows.columns[\"city\"]",
                "is numeric but categorical in the context");
  ExpectRefused({Categories("age", {"1"}, {0, 0}), city}, "rows.columns[\"age\"]",
                "is categorical but numeric in the context");
}

TEST(QueryColumnsTest, RefusesBadCells) {
  const Column age = Numbers("age", {1, 2});
  const Column city = Categories("city", {"Rome"}, {0, 0});
  ExpectRefused({Numbers("age", {1}), city}, "rows.columns[\"city\"].categorical.codes",
                "has 2 cells, but the table has 1 rows");
  ExpectRefused({Numbers("age", {}), Categories("city", {}, {})}, "rows", "at least one row");
  ExpectRefused({Numbers("age", {1, INFINITY}), city}, "rows.columns[\"age\"].numeric.values[1]",
                "infinite");
  ExpectRefused({age, Categories("city", {"Rome"}, {0, 1})},
                "rows.columns[\"city\"].categorical.codes[1]", "is 1");
}

TEST(QueryColumnsTest, LongListsOfColumnsAreCutShort) {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back(absl::StrCat("f", i));
  std::vector<FeatureColumn> context;
  for (const std::string& name : names) context.push_back({name});
  EXPECT_THAT(MatchQueryRows(FeatureColumns(std::move(context)), Table()).status().message(),
              HasSubstr("\"f7\" (numeric) and 92 more"));
}

}  // namespace
}  // namespace chorale
