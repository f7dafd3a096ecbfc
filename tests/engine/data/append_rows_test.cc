#include "engine/data/append_rows.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "engine/data/column_validation.h"
#include "engine/data/dataset_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/data/make_column.h"
#include "tests/engine/data/random_dataset.h"
#include "tests/engine/data/table_and_rows.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<AppendedRows> Match(const Dataset& dataset, Table rows,
                                   MissingTargets missing = MissingTargets::kReject) {
  return MatchAppendedRows(dataset, std::move(rows), missing, Limits());
}

Dataset Append(const Dataset& dataset, Table rows) {
  const absl::StatusOr<AppendedRows> matched = Match(dataset, std::move(rows));
  EXPECT_TRUE(matched.ok()) << matched.status();
  absl::StatusOr<Dataset> appended = AppendRows(dataset, *matched, Limits());
  EXPECT_TRUE(appended.ok()) << appended.status();
  return *std::move(appended);
}

std::vector<std::string> Cells(const Column& column) {
  std::vector<std::string> cells;
  for (const double x : column.numbers) cells.push_back(std::isnan(x) ? "-" : absl::StrCat(x));
  for (const int32_t code : column.codes) {
    cells.push_back(code == kMissingCode ? "-" : column.categories[code]);
  }
  return cells;
}

TEST(AppendRowsTest, ColumnsAreMatchedByNameAndDictionariesAreMerged) {
  const Dataset appended = Append(Base(), Rows());
  ASSERT_EQ(appended.features.columns.size(), 5);
  EXPECT_THAT(Cells(appended.features.columns[0]), ElementsAre("30", "-", "50", "-", "70"));
  EXPECT_THAT(Cells(appended.features.columns[1]), ElementsAre("0", "1", "-", "1", "0"));
  EXPECT_EQ(appended.features.columns[1].meaning, Meaning::kBoolean);
  EXPECT_THAT(Cells(appended.features.columns[2]), ElementsAre("1", "2", "3", "4", "-"));
  EXPECT_EQ(appended.features.columns[2].meaning, Meaning::kDate);
  EXPECT_THAT(Cells(appended.features.columns[3]),
              ElementsAre("Rome", "Bern", "-", "Rome", "Oslo"));
  EXPECT_THAT(Cells(appended.features.columns[4]), ElementsAre("1", "2", "2", "3", "2"));
  EXPECT_THAT(appended.y, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(appended.append_starts, ElementsAre(3));
  EXPECT_EQ(BaseRowCount(appended), 3);
  EXPECT_EQ(AppendedRowCount(appended), 2);
  EXPECT_THAT(Append(appended, Rows()).append_starts, ElementsAre(3, 5));
  EXPECT_EQ(AppendedRowCount(Append(appended, Rows())), 4);
}

// The digest of a context that was encoded anew is that of a registration of all rows.
TEST(AppendRowsTest, WithoutAppendsItIsTheDatasetOfAllRows) {
  Dataset all = Base();
  all.features.columns = {Numbers("age", {30, NAN, 50, NAN, 70}), all.features.columns[1],
                          Dates("day", {1, 2, 3, 4, NAN}),
                          Categories("city", {"Oslo", "Rome", "Bern"}, {1, 2, -1, 1, 0}),
                          Categories("size", {"1", "2", "3"}, {0, 1, 1, 2, 1})};
  all.features.columns[1].numbers = {0, 1, NAN, 1, 0};
  all.y = {1, 2, 3, 4, 5};
  const Dataset appended = Append(Base(), Rows());
  EXPECT_EQ(EncodeDataset(WithoutAppends(appended)), EncodeDataset(all));
  EXPECT_NE(EncodeDataset(appended), EncodeDataset(all));
  EXPECT_EQ(BaseRowCount(all), 5);
  EXPECT_EQ(AppendedRowCount(all), 0);
}

// The first `rows` rows of random tables and the others, in one or in two appends.
TEST(AppendRowsTest, RandomTablesInParts) {
  std::mt19937_64 random(1);
  int parts = 0;
  for (int i = 0; i < 300; ++i) {
    Dataset all = RandomDataset(random);
    all.append_starts = {};
    all.memory = {};
    const int64_t rows = static_cast<int64_t>(all.y.size());
    if (rows < 3) continue;
    const int64_t first = 1 + static_cast<int64_t>(random() % (rows - 2));
    const int64_t second = first + 1 + static_cast<int64_t>(random() % (rows - first - 1));
    const auto part = [&](int64_t from, int64_t to) {
      Dataset cut = all;
      cut.append_starts = {};
      for (Column& column : cut.features.columns) {
        if (column.type == ColumnType::kNumeric) {
          column.numbers.assign(column.numbers.begin() + from, column.numbers.begin() + to);
        } else {
          column.codes.assign(column.codes.begin() + from, column.codes.begin() + to);
        }
      }
      cut.y.assign(all.y.begin() + from, all.y.begin() + to);
      return Renumbered(cut, random);
    };
    const auto rows_of = [&](int64_t from, int64_t to) {
      const Dataset cut = part(from, to);
      Table table = cut.features;
      table.columns.push_back(Numbers(cut.target, cut.y));
      return table;
    };
    const Dataset once = Append(part(0, first), rows_of(first, rows));
    EXPECT_EQ(EncodeDataset(WithoutAppends(once)), EncodeDataset(all));
    const Dataset base = part(0, first);
    EXPECT_EQ(EncodeDataset(*BaseRows(once)), EncodeDataset(base));
    if (second == rows) continue;
    const Dataset twice = Append(Append(base, rows_of(first, second)), rows_of(second, rows));
    EXPECT_EQ(EncodeDataset(WithoutAppends(twice)), EncodeDataset(all));
    EXPECT_EQ(EncodeDataset(*BaseRows(twice)), EncodeDataset(base));
    EXPECT_NE(EncodeDataset(twice), EncodeDataset(once));
    ++parts;
  }
  EXPECT_GT(parts, 50);
}

TEST(AppendRowsTest, BaseRowsWithoutAppendsAreTheDatasetItself) {
  const Dataset base = Base();
  const BaseRows rows(base);
  EXPECT_EQ(&*rows, &base);
}

TEST(AppendRowsTest, BaseRowsKeepEverythingElse) {
  Dataset base = Base();
  base.seasons = Seasons::kNotSought;
  base.memory = {.rows = 100, .policy = MemoryPolicy::kHeavy};
  EXPECT_EQ(EncodeDataset(*BaseRows(Append(base, Rows()))), EncodeDataset(base));
  Dataset all = Append(base, Rows());
  all.append_starts.clear();
  EXPECT_EQ(EncodeDataset(WithoutAppends(Append(base, Rows()))), EncodeDataset(all));
}

TEST(AppendRowsTest, TextsAreConverted) {
  Table rows = Rows();
  ColumnOf(rows, "age") = Texts("age", {" 1.5e1", "-3"}, {1, 0});
  ColumnOf(rows, "member") = Texts("member", {"YES", "no"}, {0, 1});
  ColumnOf(rows, "day") = Texts("day", {"1970-01-11", " "}, {0, 1});
  // As in a registered table: white space is normalised, and equal numbers are one category.
  ColumnOf(rows, "city") = Texts("city", {" New\u00A0 York ", "Rome "}, {0, 1});
  ColumnOf(rows, "size") = Texts("size", {"2.0", "4.0"}, {0, 1});
  ColumnOf(rows, "y") = Texts("y", {"7", "8.5"}, {1, 0});
  const Dataset appended = Append(Base(), rows);
  const std::vector<Column>& columns = appended.features.columns;
  EXPECT_THAT(Cells(columns[0]), ElementsAre("30", "-", "50", "-3", "15"));
  EXPECT_THAT(Cells(columns[1]), ElementsAre("0", "1", "-", "1", "0"));
  EXPECT_THAT(Cells(columns[2]), ElementsAre("1", "2", "3", "10", "-"));
  EXPECT_THAT(Cells(columns[3]), ElementsAre("Rome", "Bern", "-", "New York", "Rome"));
  EXPECT_THAT(Cells(columns[4]), ElementsAre("1", "2", "2", "2", "4"));
  EXPECT_THAT(appended.y, ElementsAre(1, 2, 3, 8.5, 7));
}

TEST(AppendRowsTest, NumbersOfACategoricalColumnAreItsCategories) {
  Table rows = Rows();
  ColumnOf(rows, "size") = Numbers("size", {2, 3.5});
  EXPECT_THAT(Cells(Append(Base(), rows).features.columns[4]),
              ElementsAre("1", "2", "2", "2", "3.5"));
  Dataset truths = Base();
  truths.features.columns[4] = Categories("size", {"no", "yes"}, {0, 1, 1});
  ColumnOf(rows, "size") = Numbers("size", {1, 0});
  ColumnOf(rows, "size").meaning = Meaning::kBoolean;
  Dataset appended = Append(truths, rows);
  EXPECT_THAT(Cells(appended.features.columns[4]), ElementsAre("no", "yes", "yes", "yes", "no"));
  // Also after an append of a category that is not a word for true or false: the transform of the
  // first rows decides.
  Table other = Rows();
  ColumnOf(other, "size") = Categories("size", {"perhaps", "no"}, {0, 1});
  appended = Append(Append(truths, other), rows);
  EXPECT_THAT(Cells(appended.features.columns[4]),
              ElementsAre("no", "yes", "yes", "perhaps", "no", "yes", "no"));
}

// Unlike converted texts: encoding anew must not differ from a registration.
TEST(AppendRowsTest, CategoriesOfACategoricalColumnKeepTheirBytes) {
  Table rows = Rows();
  ColumnOf(rows, "size") = Categories("size", {"2.0", " 1"}, {0, 1});
  EXPECT_THAT(Cells(Append(Base(), rows).features.columns[4]),
              ElementsAre("1", "2", "2", "2.0", " 1"));
}

TEST(AppendRowsTest, RowsWithoutATargetAreDropped) {
  Table rows = Rows();
  ColumnOf(rows, "y").numbers[0] = NAN;
  const absl::StatusOr<AppendedRows> matched = Match(Base(), rows, MissingTargets::kDrop);
  ASSERT_TRUE(matched.ok()) << matched.status();
  EXPECT_EQ(matched->dropped, 1);
  EXPECT_EQ(matched->rows(), 1);
  EXPECT_THAT(matched->y, ElementsAre(5));
  EXPECT_EQ(matched->features.rows(), 1);
  const Dataset appended = AppendRows(Base(), *matched, Limits()).value();
  EXPECT_THAT(Cells(appended.features.columns[0]), ElementsAre("30", "-", "50", "70"));
  EXPECT_THAT(Cells(appended.features.columns[3]), ElementsAre("Rome", "Bern", "-", "Oslo"));
}

TEST(AppendRowsTest, LimitsHoldForAllRows) {
  const AppendedRows rows = Match(Base(), Rows()).value();
  Limits limits;
  limits.max_context_rows = 4;
  absl::Status status = AppendRows(Base(), rows, limits).status();
  EXPECT_EQ(ErrorField(status), "rows");
  EXPECT_THAT(status.message(), HasSubstr("has 5 rows; the limit is 4"));
  limits = Limits();
  limits.max_categories = 2;
  status = AppendRows(Base(), rows, limits).status();
  EXPECT_EQ(ErrorField(status), "rows.columns[\"city\"].categorical.categories");
  limits = Limits();
  limits.max_dataset_bytes = 150;
  EXPECT_TRUE(ValidateDataset(Base(), limits).ok());
  status = AppendRows(Base(), rows, limits).status();
  EXPECT_EQ(ErrorField(status), "rows");
  EXPECT_THAT(status.message(), HasSubstr("the limit is 150"));
  Dataset reduced = Base();
  reduced.memory = {.rows = 64, .policy = MemoryPolicy::kSample};
  for (Column& column : reduced.features.columns) {
    column.numbers.resize(column.numbers.empty() ? 0 : 63);
    column.codes.resize(column.codes.empty() ? 0 : 63);
  }
  reduced.y.resize(63);
  ASSERT_TRUE(ValidateDataset(reduced, Limits()).ok());
  status = AppendRows(reduced, rows, Limits()).status();
  EXPECT_EQ(ErrorField(status), "rows");
  EXPECT_THAT(status.message(), HasSubstr("memory set"));
}

TEST(AppendRowsTest, ARepeatedAppendIsRecognised) {
  const AppendedRows rows = Match(Base(), Rows()).value();
  const Dataset once = AppendRows(Base(), rows, Limits()).value();
  // As the store returns it, and with the rows matched again.
  const Dataset stored = DecodeDataset(EncodeDataset(once)).value();
  const AppendedRows again = Match(stored, Rows()).value();
  EXPECT_TRUE(HasAppended(stored, 3, again));
  EXPECT_TRUE(HasAppended(WithoutAppends(stored), 3, again));
  EXPECT_FALSE(HasAppended(stored, 2, again));
  EXPECT_FALSE(HasAppended(stored, 4, again));
  EXPECT_FALSE(HasAppended(stored, 5, again));
  EXPECT_FALSE(HasAppended(stored, 6, again));
  EXPECT_FALSE(HasAppended(stored, -1, again));
  EXPECT_FALSE(HasAppended(Base(), 3, again));
  EXPECT_FALSE(HasAppended(AppendRows(once, again, Limits()).value(), 3, again));
  Dataset other_start = stored;
  other_start.append_starts = {2};
  EXPECT_FALSE(HasAppended(other_start, 3, again));
  const std::vector<std::function<void(Table&)>> changes = {
      [](Table& table) { ColumnOf(table, "y").numbers[1] = 6; },
      [](Table& table) { ColumnOf(table, "age").numbers[0] = 1; },
      [](Table& table) { ColumnOf(table, "age").numbers[1] = NAN; },
      [](Table& table) { ColumnOf(table, "city").codes[0] = kMissingCode; },
      [](Table& table) { ColumnOf(table, "city").categories[0] = "Bern"; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Table other = Rows();
    changes[i](other);
    EXPECT_FALSE(HasAppended(stored, 3, Match(stored, other).value())) << i;
  }
}

TEST(AppendRowsTest, NamesThatLookEqualAreEqual) {
  Table rows = Rows();
  ColumnOf(rows, "y").name = " y";
  ColumnOf(rows, "age").name = "age ";
  const Dataset appended = Append(Base(), rows);
  EXPECT_EQ(appended.features.columns[0].name, "age");
  EXPECT_THAT(appended.y, ElementsAre(1, 2, 3, 4, 5));
}

// `rows` rows of one column.
Dataset LongDataset(int64_t rows) {
  Dataset dataset;
  dataset.features.columns = {Numbers("x", std::vector<double>(rows, 1))};
  dataset.target = "y";
  dataset.y = std::vector<double>(rows, 2);
  return dataset;
}

// So the digests of tables to which no rows were appended stay what they were.
TEST(AppendStartsTest, OnlyDatasetsWithAppendsHaveTheirStarts) {
  Dataset dataset = LongDataset(400);
  const std::string plain = EncodeDataset(dataset);
  dataset.append_starts = {7, 30, 300};
  const std::string bytes = EncodeDataset(dataset);
  const std::string name =
      "\x6d"
      "append_starts";
  const std::string starts = name + "\x83\x07\x18\x1e\x19\x01\x2c";
  std::string expected = plain;
  expected[0] = '\xa6';
  expected.insert(1, starts);
  EXPECT_EQ(bytes, expected);
  const absl::StatusOr<Dataset> decoded = DecodeDataset(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->append_starts, dataset.append_starts);

  const auto with = [&](const std::string& changed) {
    std::string other = bytes;
    other.replace(other.find(starts), starts.size(), name + changed);
    const absl::Status status = DecodeDataset(other).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(with("\x80"), HasSubstr("canonical")) << "none";
  EXPECT_THAT(with("\x81\x18\x07"), HasSubstr("canonical")) << "the long way";
  EXPECT_THAT(with("\x07"), HasSubstr("malformed")) << "no array";
  EXPECT_THAT(with("\x81\x61\x37"), HasSubstr("malformed")) << "a text";
  EXPECT_THAT(with("\x81\x81\x07"), HasSubstr("malformed")) << "an array";
  EXPECT_THAT(with("\x81\x1b" + std::string(8, '\xff')), HasSubstr("malformed"));
  EXPECT_THAT(with("\x81\x20"), HasSubstr("not an encoded dataset")) << "negative";
  EXPECT_THAT(with(std::string("\x81\0", 2)), HasSubstr("must be ascending, from 1 to 399"));
  EXPECT_THAT(with("\x82\x07\x07"), HasSubstr("contains 7 after 7"));
  EXPECT_THAT(with("\x82\x07\x06"), HasSubstr("contains 6 after 7"));
  EXPECT_THAT(with("\x81\x19\x01\x90"), HasSubstr("contains 400 after 0"));
  // Not in the order of the keys.
  std::string other_order = plain;
  other_order[0] = '\xa6';
  other_order.insert(other_order.find("\x66"
                                      "format"),
                     starts);
  EXPECT_THAT(DecodeDataset(other_order).status().message(), HasSubstr("canonical"));
}

TEST(AppendStartsTest, AsManyAppendsAsPermittedCanBeDecoded) {
  Dataset dataset = LongDataset(kMostAppends + 2);
  for (int64_t start = 1; start <= kMostAppends; ++start) dataset.append_starts.push_back(start);
  const absl::StatusOr<Dataset> decoded = DecodeDataset(EncodeDataset(dataset));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->append_starts, dataset.append_starts);
  dataset.append_starts.push_back(kMostAppends + 1);
  EXPECT_THAT(DecodeDataset(EncodeDataset(dataset)).status().message(),
              HasSubstr("were appended in 1025 parts; the limit is 1024"));
}

}  // namespace
}  // namespace chorale
