#include "server/codec/table_decoder.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/date_text.h"
#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/tables.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr TableBounds kBounds = {
    .max_rows = 4, .max_columns = 3, .max_categories = 3, .max_name_bytes = 8, .max_text_bytes = 8};

TEST(TableDecoderTest, KeepsEverything) {
  v1::Table message = SmallTable();
  message.mutable_columns(0)->mutable_numeric()->set_values(1, kNan);
  const absl::StatusOr<Table> table = DecodeTable(message, "rows", kBounds);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->columns.size(), 2);
  EXPECT_EQ(table->rows(), 3);
  const Column& age = table->columns[0];
  EXPECT_EQ(age.name, "age");
  EXPECT_EQ(age.type, ColumnType::kNumeric);
  EXPECT_EQ(age.numbers[0], 1);
  EXPECT_TRUE(std::isnan(age.numbers[1]));
  EXPECT_EQ(age.numbers[2], 3);
  const Column& color = table->columns[1];
  EXPECT_EQ(color.type, ColumnType::kCategorical);
  EXPECT_THAT(color.categories, ElementsAre("red", "blue"));
  EXPECT_THAT(color.codes, ElementsAre(0, 1, kMissingCode));
}

TEST(TableDecoderTest, KeepsWhatNumbersMean) {
  v1::Table message = SmallTable();
  EXPECT_EQ(DecodeTable(message, "rows", kBounds)->columns[0].meaning, Meaning::kNumber);
  for (const auto& [from, to] : {std::pair{v1::NumericValues::MEANING_DATE, Meaning::kDate},
                                 {v1::NumericValues::MEANING_DURATION, Meaning::kDuration},
                                 {v1::NumericValues::MEANING_BOOLEAN, Meaning::kBoolean}}) {
    message.mutable_columns(0)->mutable_numeric()->set_meaning(from);
    EXPECT_EQ(DecodeTable(message, "rows", kBounds)->columns[0].meaning, to);
  }
}

TEST(TableDecoderTest, ATableAtEveryBoundIsFine) {
  v1::Table message;
  AddNumeric(&message, "12345678", {1, 2, 3, 4});
  AddCategorical(&message, "b", {"12345678", "y", "z"}, {2, 1, 0, -1});
  AddNumeric(&message, "c", {1, 2, 3, 4});
  EXPECT_TRUE(DecodeTable(message, "t", kBounds).ok());
}

// The first column, whose values a test sets.
v1::Column* SetForm(v1::Table* table) { return table->mutable_columns(0); }

TEST(TableDecoderTest, EveryFormBecomesNumbersOrTexts) {
  v1::Table message;
  const auto add = [&](const std::string& name) {
    v1::Column* const column = message.add_columns();
    column->set_name(name);
    return column;
  };
  v1::BoolValues* const bools = add("bools")->mutable_bools();
  for (const bool value : {true, false, true}) bools->add_values(value);
  bools->add_missing_rows(2);
  v1::IntegerValues* const integers = add("integers")->mutable_integers();
  // Values of missing rows are ignored.
  for (const int64_t value : {-3LL, 1LL << 60, 9007199254740992LL}) integers->add_values(value);
  integers->add_missing_rows(1);
  integers->add_missing_rows(1);
  v1::DateValues* const dates = add("dates")->mutable_dates();
  for (const int32_t day : {19753, -1, 0}) dates->add_days(day);
  dates->add_missing_rows(0);
  v1::TimestampValues* const times = add("times")->mutable_timestamps();
  for (const int64_t time : {43'200'000'000LL, -1LL, 0LL}) times->add_microseconds(time);
  AddStrings(&message, "strings", {"b", "", "b"});

  TableBounds bounds = kBounds;
  bounds.max_columns = 5;
  const absl::StatusOr<Table> table = DecodeTable(message, "rows", bounds);
  ASSERT_TRUE(table.ok()) << table.status();
  const std::vector<Column>& columns = table->columns;
  EXPECT_EQ(columns[0].meaning, Meaning::kBoolean);
  EXPECT_THAT(columns[0].numbers, ElementsAre(1, 0, IsNan()));
  EXPECT_EQ(columns[1].meaning, Meaning::kNumber);
  EXPECT_THAT(columns[1].numbers, ElementsAre(-3, IsNan(), 9007199254740992.0));
  EXPECT_EQ(columns[2].meaning, Meaning::kDate);
  EXPECT_THAT(columns[2].numbers, ElementsAre(IsNan(), -1, 0));
  EXPECT_EQ(columns[3].meaning, Meaning::kDate);
  EXPECT_THAT(columns[3].numbers, ElementsAre(0.5, *ParseDate("1969-12-31T23:59:59.999999"), 0));
  EXPECT_EQ(columns[4].type, ColumnType::kText);
  EXPECT_THAT(columns[4].categories, ElementsAre("b"));
  EXPECT_THAT(columns[4].codes, ElementsAre(0, kMissingCode, 0));
}

struct BadTable {
  const char* what;
  std::function<void(v1::Table*)> spoil;  // of SmallTable()
  const char* field;
  const char* message;
};

class BadTableTest : public ::testing::TestWithParam<BadTable> {};

TEST_P(BadTableTest, IsRefusedByField) {
  v1::Table message = SmallTable();
  GetParam().spoil(&message);
  const absl::Status status = DecodeTable(message, "rows", kBounds).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorField(status), GetParam().field);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadTableTest,
    ::testing::Values(
        BadTable{"NoColumns", [](auto* t) { t->Clear(); }, "rows.columns", "empty"},
        BadTable{"TooManyColumns",
                 [](auto* t) {
                   AddNumeric(t, "x", {1, 2, 3});
                   AddNumeric(t, "y", {1, 2, 3});
                 },
                 "rows.columns", "4 columns; the limit is 3"},
        BadTable{"NoRows",
                 [](auto* t) {
                   t->Clear();
                   AddNumeric(t, "x", {});
                 },
                 "rows", "at least one row"},
        BadTable{"TooManyRows",
                 [](auto* t) {
                   t->Clear();
                   AddNumeric(t, "x", {1, 2, 3, 4, 5});
                 },
                 "rows", "5 rows; the limit is 4"},
        BadTable{"UnequalRows",
                 [](auto* t) { t->mutable_columns(1)->mutable_categorical()->add_codes(0); },
                 "rows.columns[1]", "4 rows, but the first column has 3"},
        BadTable{"NoValues", [](auto* t) { t->mutable_columns(1)->clear_values(); },
                 "rows.columns[1]", "must have values"},
        BadTable{"LargeInteger",
                 [](auto* t) {
                   for (const int64_t value : {1LL << 53, -(1LL << 53), (1LL << 53) + 1}) {
                     SetForm(t)->mutable_integers()->add_values(value);
                   }
                 },
                 "rows.columns[0].integers.values[2]", "is 9007199254740993; integers must be"},
        BadTable{"DateBeforeYear1",
                 [](auto* t) {
                   for (const int32_t day : {0, -719162, -719163}) {
                     SetForm(t)->mutable_dates()->add_days(day);
                   }
                 },
                 "rows.columns[0].dates.days[2]", "years 1 to 9999"},
        BadTable{"TimeAfterYear9999",
                 [](auto* t) {
                   for (const int64_t time : {int64_t{0}, 253402300799999999, 253402300800000000}) {
                     SetForm(t)->mutable_timestamps()->add_microseconds(time);
                   }
                 },
                 "rows.columns[0].timestamps.microseconds[2]", "years 1 to 9999"},
        BadTable{"MissingRowAbove",
                 [](auto* t) {
                   for (int i = 0; i < 3; ++i) SetForm(t)->mutable_bools()->add_values(true);
                   SetForm(t)->mutable_bools()->add_missing_rows(3);
                 },
                 "rows.columns[0].bools.missing_rows[0]", "is 3; the column has 3 rows"},
        BadTable{"NegativeMissingRow",
                 [](auto* t) {
                   for (int i = 0; i < 3; ++i) SetForm(t)->mutable_dates()->add_days(i);
                   SetForm(t)->mutable_dates()->add_missing_rows(-1);
                 },
                 "rows.columns[0].dates.missing_rows[0]", "is -1"},
        BadTable{"LongString",
                 [](auto* t) {
                   for (const char* text : {"", "12345678", "123456789"}) {
                     SetForm(t)->mutable_strings()->add_values(text);
                   }
                 },
                 "rows.columns[0].strings.values[2]", "9 bytes; the limit is 8"},
        BadTable{"NoName", [](auto* t) { t->mutable_columns(0)->clear_name(); },
                 "rows.columns[0].name", "empty"},
        BadTable{"LongName", [](auto* t) { t->mutable_columns(0)->set_name("123456789"); },
                 "rows.columns[0].name", "9 bytes; the limit is 8"},
        BadTable{"SameName", [](auto* t) { t->mutable_columns(1)->set_name("age"); },
                 "rows.columns[1].name", "\"age\" occurs twice"},
        BadTable{"UnknownMeaning",
                 [](auto* t) {
                   t->mutable_columns(0)->mutable_numeric()->set_meaning(
                       static_cast<v1::NumericValues::Meaning>(9));
                 },
                 "rows.columns[0].numeric.meaning", "is 9, which is not a known value"},
        BadTable{
            "Infinity",
            [](auto* t) { t->mutable_columns(0)->mutable_numeric()->set_values(2, kInfinity); },
            "rows.columns[0].numeric.values[2]", "infinite"},
        BadTable{
            "NegativeInfinity",
            [](auto* t) { t->mutable_columns(0)->mutable_numeric()->set_values(0, -kInfinity); },
            "rows.columns[0].numeric.values[0]", "infinite"},
        BadTable{"CodeBelow",
                 [](auto* t) { t->mutable_columns(1)->mutable_categorical()->set_codes(1, -2); },
                 "rows.columns[1].categorical.codes[1]", "is -2"},
        BadTable{"CodeAbove",
                 [](auto* t) { t->mutable_columns(1)->mutable_categorical()->set_codes(2, 2); },
                 "rows.columns[1].categorical.codes[2]", "has 2 categories"},
        BadTable{"SmallestCode",
                 [](auto* t) {
                   t->mutable_columns(1)->mutable_categorical()->set_codes(
                       0, std::numeric_limits<int32_t>::min());
                 },
                 "rows.columns[1].categorical.codes[0]", "-2147483648"},
        BadTable{
            "EmptyCategory",
            [](auto* t) { t->mutable_columns(1)->mutable_categorical()->set_categories(1, ""); },
            "rows.columns[1].categorical.categories[1]", "empty"},
        BadTable{
            "SameCategory",
            [](auto* t) { t->mutable_columns(1)->mutable_categorical()->set_categories(1, "red"); },
            "rows.columns[1].categorical.categories[1]", "\"red\" occurs twice"},
        BadTable{"LongCategory",
                 [](auto* t) {
                   t->mutable_columns(1)->mutable_categorical()->set_categories(0, "123456789");
                 },
                 "rows.columns[1].categorical.categories[0]", "9 bytes; the limit is 8"},
        BadTable{"TooManyCategories",
                 [](auto* t) {
                   t->mutable_columns(1)->mutable_categorical()->add_categories("c");
                   t->mutable_columns(1)->mutable_categorical()->add_categories("d");
                 },
                 "rows.columns[1].categorical.categories", "4 categories; the limit is 3"}),
    [](const auto& info) { return info.param.what; });

// Chunks come without their place in the user's file.
TEST(TableDecoderTest, ErrorsInAColumnNameIt) {
  v1::Table message = SmallTable();
  message.mutable_columns(1)->mutable_categorical()->set_categories(0, "123456789");
  const absl::Status status = DecodeTable(message, "rows", kBounds).status();
  EXPECT_EQ(std::string(status.message()),
            "rows.columns[1].categorical.categories[0]: has 9 bytes; the limit is 8 (column "
            "\"color\")");
}

// What is only looked up may be anything.
TEST(TableDecoderTest, CategoriesOfTargetsMayBeLongAndMany) {
  Limits limits;
  limits.max_categories = 1;
  limits.max_query_rows = 2;
  v1::Table message;
  AddCategorical(&message, "note", {std::string(100'000, 'x'), "y"}, {0, 1});
  const absl::StatusOr<Table> query_rows = DecodeTable(message, "rows", QueryRowBounds(limits));
  EXPECT_TRUE(query_rows.ok()) << query_rows.status();
  EXPECT_FALSE(DecodeTable(message, "rows", ChunkBounds(limits)).ok());
  limits.max_categories = 2;
  const absl::Status status = DecodeTable(message, "rows", ChunkBounds(limits)).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("100000 bytes; the limit is 256"));
}

TEST(TableBoundsTest, ComeFromTheLimits) {
  Limits limits;
  limits.max_query_rows = 11;
  limits.max_context_rows = 22;
  limits.max_features = 33;
  EXPECT_EQ(QueryRowBounds(limits).max_rows, 11);
  EXPECT_EQ(QueryRowBounds(limits).max_columns, 33);
  EXPECT_EQ(ChunkBounds(limits).max_rows, 22);
  EXPECT_EQ(ChunkBounds(limits).max_columns, 34);  // and the target
}

}  // namespace
}  // namespace chorale
