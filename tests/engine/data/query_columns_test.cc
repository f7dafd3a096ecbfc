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

std::vector<const Column*> Addresses(const QueryColumns& columns) {
  std::vector<const Column*> addresses;
  for (size_t i = 0; i < columns.size(); ++i) addresses.push_back(&columns[i]);
  return addresses;
}

TEST(QueryColumnsTest, MatchedByNameInTheContextsOrder) {
  Table table;
  table.columns = {Categories("city", {"Rome"}, {0, kMissingCode}),
                   Numbers("age", {1, std::nan("")})};
  const auto matched = MatchQueryRows(kContext, table);
  ASSERT_TRUE(matched.ok()) << matched.status();
  EXPECT_THAT(Addresses(*matched), ElementsAre(&table.columns[1], &table.columns[0]));
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
  EXPECT_THAT(Addresses(*matched),
              ElementsAre(&table.columns[1], &table.columns[2], &table.columns[0]));
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
  ExpectRefused({Categories("age", {"1"}, {0, 0}), city}, "rows.columns[\"age\"]",
                "is categorical but numeric in the context");
}

Column Texts(const std::string& name, std::vector<std::string> texts, std::vector<int32_t> codes) {
  Column column = Categories(name, std::move(texts), std::move(codes));
  column.type = ColumnType::kText;
  return column;
}

TEST(QueryColumnsTest, ExtraColumnsCanBeIgnored) {
  Table table;
  table.columns = {Numbers("y", {1, 2}), Numbers("age", {1, 2}),
                   Categories("city", {"Rome"}, {0, 0})};
  const auto matched = MatchQueryRows(kContext, table, ExtraColumns::kIgnore);
  ASSERT_TRUE(matched.ok()) << matched.status();
  ASSERT_EQ(matched->size(), 2);
  EXPECT_EQ((*matched)[0].name, "age");
}

TEST(QueryColumnsTest, ConvertsTextsToNumbersByTheirMeaning) {
  const FeatureColumns context({{.name = "day", .meaning = Meaning::kDate},
                                {.name = "open", .meaning = Meaning::kBoolean},
                                {.name = "size"}});
  Table table;
  table.columns = {Texts("day", {"2024-01-31", "19754", " "}, {0, 1, 2}),
                   Texts("open", {"TRUE", "no"}, {0, 1, kMissingCode}),
                   Texts("size", {" 2.50 "}, {0, 0, kMissingCode})};
  const auto matched = MatchQueryRows(context, table);
  ASSERT_TRUE(matched.ok()) << matched.status();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*matched)[i].type, ColumnType::kNumeric);
    EXPECT_TRUE(std::isnan((*matched)[i].numbers[2])) << i;
  }
  EXPECT_EQ((*matched)[0].numbers[0], 19753);
  EXPECT_EQ((*matched)[0].numbers[1], 19754);
  EXPECT_EQ((*matched)[1].numbers[0], 1);
  EXPECT_EQ((*matched)[1].numbers[1], 0);
  EXPECT_EQ((*matched)[2].numbers[1], 2.5);

  table.columns[0] = Texts("day", {"31.1.2024"}, {kMissingCode, 0, 0});
  const absl::Status status = MatchQueryRows(context, table).status();
  EXPECT_EQ(ErrorField(status), "rows.columns[\"day\"].strings.values[1]");
  EXPECT_THAT(status.message(), HasSubstr("is \"31.1.2024\", but the context's column requires a "
                                          "date like 2024-01-31"));
}

TEST(QueryColumnsTest, ConvertsToCategories) {
  Table table;
  table.columns = {Numbers("age", {1, 2, 3}), Texts("city", {"Rome", "  "}, {0, 1, kMissingCode})};
  auto matched = MatchQueryRows(kContext, table);
  ASSERT_TRUE(matched.ok()) << matched.status();
  EXPECT_EQ((*matched)[1].type, ColumnType::kCategorical);
  EXPECT_THAT((*matched)[1].codes, ElementsAre(0, kMissingCode, kMissingCode));

  table.columns[1] = Numbers("city", {3, NAN, 2.5});
  matched = MatchQueryRows(kContext, table);
  ASSERT_TRUE(matched.ok()) << matched.status();
  EXPECT_THAT((*matched)[1].categories, ElementsAre("3", "2.5"));
  EXPECT_THAT((*matched)[1].codes, ElementsAre(0, kMissingCode, 1));

  table.columns[1] = Numbers("city", {1, 0, 1});
  table.columns[1].meaning = Meaning::kBoolean;
  EXPECT_THAT((*MatchQueryRows(kContext, table))[1].categories, ElementsAre("true", "false"));
}

TEST(QueryColumnsTest, RefusesNumbersThatCannotBeCategories) {
  const FeatureColumns context(
      {{.name = "city", .type = ColumnType::kCategorical, .has_numbers = false}});
  Table table;
  table.columns = {Numbers("city", {1, 2})};
  EXPECT_THAT(MatchQueryRows(context, table).status().message(),
              HasSubstr("is numeric, but categorical in the context, whose categories are not "
                        "numbers"));
  table.columns[0].meaning = Meaning::kDate;
  const FeatureColumns numbers({{.name = "city", .type = ColumnType::kCategorical}});
  EXPECT_THAT(MatchQueryRows(numbers, table).status().message(), HasSubstr("has dates"));
}

TEST(QueryColumnsTest, ADroppedColumnMayHaveAnyCells) {
  const FeatureColumns context({{.name = "x", .left_out = true}});
  Table table;
  table.columns = {Texts("x", {"5", "five"}, {0, 1})};
  EXPECT_TRUE(MatchQueryRows(context, table).ok());
  table.columns = {Categories("x", {"five"}, {0, 0})};
  EXPECT_TRUE(MatchQueryRows(context, table).ok());
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
