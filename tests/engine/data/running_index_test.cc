#include "engine/data/running_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "engine/data/series_grouping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/data/make_column.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> Count(int rows, double step = 1) {
  std::vector<double> numbers;
  for (int i = 0; i < rows; ++i) numbers.push_back(step * i);
  return numbers;
}

RunningIndices Find(std::vector<double> numbers) {
  Table table;
  table.columns.push_back(Numbers("t", std::move(numbers)));
  return FindRunningIndices(table);
}

// The step of a table of one column; 0: it is no running index.
double StepOf(std::vector<double> numbers) {
  const RunningIndices indices = Find(std::move(numbers));
  return indices.found.empty() ? 0 : indices.found[0].step;
}

IndexVerdict VerdictOf(std::vector<double> numbers) {
  const RunningIndices indices = Find(std::move(numbers));
  EXPECT_TRUE(indices.found.empty());
  return indices.verdicts.at(0);
}

// Days, of which Saturday and Sunday are left out.
std::vector<double> BusinessDays(int weeks) {
  std::vector<double> days;
  for (int day = 0; day < 7 * weeks; ++day) {
    if (day % 7 < 5) days.push_back(19'000 + day);
  }
  return days;
}

// Stores that each have the numbers 0 to rows - 1, the store changing fastest.
Table Panel(int stores, int rows) {
  Table table;
  std::vector<int32_t> store;
  std::vector<double> t;
  std::vector<std::string> names;
  for (int i = 0; i < stores; ++i) names.push_back(absl::StrCat("s", i));
  for (int i = 0; i < stores * rows; ++i) {
    store.push_back(i % stores);
    t.push_back(i / stores);
  }
  table.columns = {Categories("store", names, store), Numbers("t", t)};
  return table;
}

TEST(RunningIndexTest, IsEvenOrWholeStepsApart) {
  EXPECT_EQ(StepOf(Count(30, 0.25)), 0.25);
  EXPECT_EQ(StepOf(BusinessDays(10)), 1);
  std::vector<double> months;
  for (int year = 0; year < 4; ++year) {
    for (const int day : {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334}) {
      months.push_back(365 * year + day);
    }
  }
  EXPECT_EQ(StepOf(months), 31);
  std::vector<double> jittered;
  for (int i = 0; i < 60; ++i) jittered.push_back(i + 0.2 * std::sin(i * i));
  EXPECT_NEAR(StepOf(jittered), 1, 0.1);
}

TEST(RunningIndexTest, FourDaysInTenMayBeMissing) {
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    std::vector<double> days;
    for (int day = 0; day < 120; ++day) {
      if (random() % 10 >= 4) days.push_back(day);
    }
    EXPECT_EQ(StepOf(days), 1) << i;
  }
}

TEST(RunningIndexTest, RandomNumbersAreNone) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 500; ++i) {
    std::vector<double> numbers;
    const int rows = 16 << (i % 5);
    for (int row = 0; row < rows; ++row) numbers.push_back(normal(random));
    EXPECT_EQ(VerdictOf(numbers), IndexVerdict::kUneven) << i;
    for (double& x : numbers) x = std::exp(x);
    EXPECT_EQ(VerdictOf(numbers), IndexVerdict::kUneven) << i;
  }
}

TEST(RunningIndexTest, SaysWhyAColumnIsNone) {
  std::vector<double> numbers = Count(40);
  EXPECT_EQ(VerdictOf(Count(15)), IndexVerdict::kTooFewRows);
  numbers[7] = kNaN;
  EXPECT_EQ(VerdictOf(numbers), IndexVerdict::kMissingCells);
  for (const int row : {7, 12, 20}) numbers[row] = row + 1;
  EXPECT_EQ(VerdictOf(numbers), IndexVerdict::kRepeats);
  numbers = Count(40);
  numbers[7] = 7.7;
  EXPECT_EQ(VerdictOf(numbers), IndexVerdict::kUneven);
  numbers = Count(40);
  for (int i = 20; i < 40; ++i) numbers[i] += 200;
  EXPECT_EQ(VerdictOf(numbers), IndexVerdict::kLongGaps);
  EXPECT_EQ(VerdictOf(std::vector<double>(40, 3)), IndexVerdict::kFewValues);
  for (int i = 0; i < 40; ++i) numbers[i] = i % 12;
  EXPECT_EQ(VerdictOf(numbers), IndexVerdict::kFewValues);
  EXPECT_THAT(std::string(SentenceOf(IndexVerdict::kRepeats)), HasSubstr("its values repeat"));
  EXPECT_THAT(std::string(SentenceOf(IndexVerdict::kTooFewRows)), HasSubstr("fewer than 16 rows"));
}

TEST(RunningIndexTest, OneRowInTwentyMayBeAtThePlaceOfAnother) {
  std::vector<double> numbers = Count(40);
  numbers[7] = 8;
  numbers[30] = 8;
  EXPECT_EQ(StepOf(numbers), 1);
  std::vector<double> hours = Count(60, 0.5);
  hours.insert(hours.begin(), {12, 7.5, 7.5});
  EXPECT_EQ(StepOf(hours), 0.5);
  hours.push_back(9);
  EXPECT_EQ(VerdictOf(hours), IndexVerdict::kRepeats);
  std::vector<double> uneven = Count(40);
  uneven[3] = 3.9;
  uneven[9] = 10;
  EXPECT_EQ(VerdictOf(uneven), IndexVerdict::kUneven);
}

TEST(RunningIndexTest, OneRowInTwentyOfSeveralSeriesMayBeAtThePlaceOfAnother) {
  Table table = Panel(3, 20);
  const auto repeat = [&](int row) {
    table.columns[0].codes.push_back(table.columns[0].codes[row]);
    table.columns[1].numbers.push_back(table.columns[1].numbers[row]);
  };
  for (const int row : {5, 17, 17}) repeat(row);
  const RunningIndices indices = FindRunningIndices(table);
  ASSERT_EQ(indices.found.size(), 1u);
  EXPECT_EQ(indices.found[0].step, 1);
  EXPECT_THAT(indices.found[0].told_by, ElementsAre(0));
  EXPECT_EQ(indices.found[0].series[2].size(), 23u);
  EXPECT_EQ(RunningIndexOf(table, 1)->series, indices.found[0].series);
  repeat(30);
  EXPECT_EQ(FindRunningIndices(table).verdicts[1], IndexVerdict::kRepeats);
}

// A column by which the row that is there twice differs tells no series.
TEST(RunningIndexTest, ARowThatIsThereTwiceIsNoSeries) {
  std::vector<double> numbers = Count(40);
  numbers.push_back(20);
  std::vector<int32_t> corrected(41);
  corrected[40] = 1;
  for (int row = 0; row < 6; ++row) corrected[5 * row] = 1;
  Table table;
  table.columns = {Numbers("t", numbers), Categories("corrected", {"no", "yes"}, corrected)};
  const RunningIndices indices = FindRunningIndices(table);
  ASSERT_EQ(indices.found.size(), 1u);
  EXPECT_EQ(indices.found[0].series.size(), 1u);
}

TEST(RunningIndexTest, DatesOfOneDayOfAMonthCountMonths) {
  std::vector<double> firsts;
  std::vector<double> quarters;
  for (int month = 0; month < 48; ++month) {
    const absl::CivilDay day(absl::CivilMonth(2019, 4) + month);
    firsts.push_back(static_cast<double>(day - absl::CivilDay(1970, 1, 1)));
    if (month % 3 == 0) quarters.push_back(firsts.back() - 1);
  }
  Table table;
  table.columns = {Numbers("month", firsts)};
  EXPECT_EQ(FindRunningIndices(table).found.at(0).step, 31);
  table.columns[0].meaning = Meaning::kDate;
  RunningIndex index = FindRunningIndices(table).found.at(0);
  ASSERT_TRUE(index.months.has_value());
  EXPECT_EQ(index.step, 1);
  EXPECT_EQ(index.first, 12 * 49 + 3);
  table.columns[0].numbers = quarters;
  index = FindRunningIndices(table).found.at(0);
  ASSERT_TRUE(index.months.has_value());
  EXPECT_EQ(index.step, 3);
  EXPECT_EQ(RunningIndexOf(table, 0)->first, index.first);
}

TEST(RunningIndexTest, TheFirstTwoColumnsAreTried) {
  Table table;
  table.columns = {Numbers("a", Count(20)), Numbers("b", Count(20, 2)), Numbers("c", Count(20))};
  const RunningIndices indices = FindRunningIndices(table);
  ASSERT_EQ(indices.found.size(), 2u);
  EXPECT_EQ(indices.found[0].column, 0);
  EXPECT_EQ(indices.found[1].column, 1);
  EXPECT_EQ(indices.verdicts[2], IndexVerdict::kNotTried);
}

TEST(RunningIndexTest, SeriesAreToldByAColumn) {
  const Table table = Panel(3, 20);
  const RunningIndices indices = FindRunningIndices(table);
  ASSERT_EQ(indices.found.size(), 1u);
  const RunningIndex& index = indices.found[0];
  EXPECT_EQ(index.column, 1);
  EXPECT_EQ(index.step, 1);
  EXPECT_THAT(index.told_by, ElementsAre(0));
  ASSERT_EQ(index.series.size(), 3u);
  EXPECT_EQ(index.series[1].size(), 20u);
  EXPECT_EQ(index.series[1][2], 7u);  // of the second store the third row
  const std::optional<RunningIndex> same = RunningIndexOf(table, 1);
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ(same->step, index.step);
  EXPECT_EQ(same->series, index.series);
  EXPECT_FALSE(RunningIndexOf(table, 0).has_value());
}

TEST(RunningIndexTest, SeriesAreToldByANumberAndByTwoColumns) {
  Table table = Panel(6, 20);
  std::vector<double> store;
  std::vector<int32_t> article;
  for (int i = 0; i < 120; ++i) {
    store.push_back(10 + i % 6 / 3);
    article.push_back(i % 3);
  }
  table.columns[0] = Categories("article", {"x", "y", "z"}, article);
  EXPECT_TRUE(FindRunningIndices(table).found.empty());
  EXPECT_EQ(FindRunningIndices(table).verdicts[1], IndexVerdict::kRepeats);
  table.columns.push_back(Numbers("store", store));
  const RunningIndices indices = FindRunningIndices(table);
  ASSERT_EQ(indices.found.size(), 1u);
  EXPECT_EQ(indices.found[0].series.size(), 6u);
  EXPECT_THAT(indices.found[0].told_by, ElementsAre(2, 0));  // fewest values first
}

TEST(RunningIndexTest, AMissingCellIsASeriesOfItsOwn) {
  Table table = Panel(3, 20);
  for (int32_t& code : table.columns[0].codes) {
    if (code == 1) code = kMissingCode;
  }
  ASSERT_EQ(FindRunningIndices(table).found.size(), 1u);
  EXPECT_EQ(FindRunningIndices(table).found[0].series[2][0], 1u);
}

TEST(RunningIndexTest, OfRepeatingColumnsTheOneWithMostNumbersIsTried) {
  Table table = Panel(20, 30);
  std::vector<double> store;
  for (int i = 0; i < 600; ++i) store.push_back(i % 20);
  table.columns[0] = Numbers("store", store);
  const RunningIndices indices = FindRunningIndices(table);
  ASSERT_EQ(indices.found.size(), 1u);
  EXPECT_EQ(indices.found[0].column, 1);
  EXPECT_EQ(indices.verdicts[0], IndexVerdict::kNotTried);
}

TEST(SeriesGroupingTest, CodesAreInTheOrderOfValues) {
  const Codes numbers = CodesOf(Numbers("x", {2, kNaN, -1, 2}));
  EXPECT_EQ(numbers.count, 3u);
  EXPECT_THAT(numbers.codes, ElementsAre(1, 2, 0, 1));
  const Codes categories = CodesOf(Categories("x", {"b", "unused", "a"}, {0, 2, kMissingCode}));
  EXPECT_EQ(categories.count, 3u);
  EXPECT_THAT(categories.codes, ElementsAre(1, 0, 2));
  EXPECT_EQ(CountValues(Numbers("x", {2, kNaN, -1, 2})), 3u);
  EXPECT_EQ(CountValues(Categories("x", {"b", "unused", "a"}, {0, 2, kMissingCode})), 3u);
}

}  // namespace
}  // namespace chorale
