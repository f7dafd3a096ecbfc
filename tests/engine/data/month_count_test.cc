#include "engine/data/month_count.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/civil_time.h"
#include "gtest/gtest.h"
#include "tests/engine/data/make_column.h"

namespace chorale {
namespace {

double Date(int year, int month, int day) {
  return static_cast<double>(absl::CivilDay(year, month, day) - absl::CivilDay(1970, 1, 1));
}

std::optional<MonthCount> Of(std::vector<double> dates, Meaning meaning = Meaning::kDate) {
  Column column = Numbers("day", std::move(dates));
  column.meaning = meaning;
  return MonthCount::Of(column);
}

TEST(MonthCountTest, CountsOneDayOfEachMonth) {
  const std::optional<MonthCount> first = Of({Date(1970, 1, 1), Date(1968, 2, 1)});
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->At(Date(1970, 1, 1)), 0);
  EXPECT_EQ(first->At(Date(1969, 12, 1)), -1);
  EXPECT_EQ(first->At(Date(2024, 3, 1)), 12 * 54 + 2);
  EXPECT_EQ(first->At(Date(2024, 2, 15) + 0.5), 12 * 54 + 1 + 0.5);
  const std::optional<MonthCount> late = Of({Date(2024, 2, 28), Date(2023, 11, 28)});
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->At(Date(1970, 3, 28)), 2);
  EXPECT_EQ(late->At(Date(1970, 3, 14)), 1.5);
}

TEST(MonthCountTest, CountsTheLastDayOfEachMonth) {
  const std::optional<MonthCount> last =
      Of({Date(2024, 2, 29), Date(2023, 2, 28), Date(2023, 1, 31), Date(2023, 4, 30)});
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->At(Date(2023, 2, 28)) - last->At(Date(2023, 1, 31)), 1);
  EXPECT_EQ(last->At(Date(2024, 2, 29)) - last->At(Date(2023, 2, 28)), 12);
  EXPECT_EQ(last->At(Date(1970, 2, 14)), 0.5);
  EXPECT_GT(last->At(Date(2024, 2, 29)), last->At(Date(2024, 2, 28)));
}

TEST(MonthCountTest, OtherColumnsCountNone) {
  const std::vector<double> firsts = {Date(2024, 1, 1), Date(2024, 2, 1)};
  EXPECT_TRUE(Of(firsts).has_value());
  EXPECT_FALSE(Of(firsts, Meaning::kNumber).has_value());
  EXPECT_FALSE(Of({}).has_value());
  EXPECT_FALSE(Of({Date(2024, 1, 1), Date(2024, 2, 2)}).has_value());
  EXPECT_FALSE(Of({Date(2024, 1, 1), Date(2024, 2, 1) + 0.5}).has_value());
  EXPECT_FALSE(Of({Date(2024, 1, 29), Date(2024, 3, 29)}).has_value());  // not in each February
  for (const double number : {1e300, -1e300, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(Of({Date(2024, 1, 1), number}).has_value());
    EXPECT_TRUE(std::isnan(Of(firsts)->At(number)));
  }
  EXPECT_TRUE(std::isfinite(Of(firsts)->At(9e7)));
  EXPECT_TRUE(std::isfinite(Of(firsts)->At(-9e7)));
}

}  // namespace
}  // namespace chorale
