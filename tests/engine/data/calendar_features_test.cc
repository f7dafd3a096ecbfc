#include "engine/data/calendar_features.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/feature_transform.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using enum CalendarFeature;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kFirst = 18262;  // 2020-01-01, a Wednesday

Column Dates(std::vector<double> numbers) {
  Column column;
  column.name = "date";
  column.meaning = Meaning::kDate;
  column.numbers = std::move(numbers);
  return column;
}

// `count` dates that span `days` days.
Column Span(double days, int count = 40) {
  std::vector<double> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(kFirst + std::floor(days * i / (count - 1)));
  return Dates(std::move(numbers));
}

std::vector<CalendarFeature> Of(const Column& column,
                                const std::optional<Season>& season = std::nullopt) {
  return CalendarFeaturesOf(column, season);
}

TEST(CalendarFeaturesTest, ValuesOfDates) {
  EXPECT_EQ(CalendarValue(kWeekday, 0), 3);  // 1970-01-01 was a Thursday
  EXPECT_EQ(CalendarValue(kWeekday, kFirst), 2);
  EXPECT_EQ(CalendarValue(kWeekday, kFirst + 4.99), 6);
  EXPECT_EQ(CalendarValue(kWeekday, -1), 2);
  EXPECT_EQ(CalendarValue(kWeekday, -0.25), 2);
  EXPECT_EQ(CalendarValue(kHour, kFirst), 0);
  EXPECT_EQ(CalendarValue(kHour, kFirst + 0.75), 18);
  EXPECT_EQ(CalendarValue(kHour, -0.25), 18);
  // Whatever the precision of the date.
  for (const double day : {1.0, 9000.0, 17000.0, 90000.0}) {
    EXPECT_EQ(CalendarValue(kHour, day + 13.0 / 24), CalendarValue(kHour, 13.0 / 24));
  }
  EXPECT_EQ(CalendarValue(kHour, 20000 - 1e-10), 0);  // rounded to the next day
  EXPECT_EQ(CalendarValue(kDayOfMonth, kFirst + 30.5), 31);
  EXPECT_EQ(CalendarValue(kDayOfMonth, kFirst + 31), 1);
  EXPECT_EQ(CalendarValue(kDayOfMonth, -1), 31);
  EXPECT_EQ(CalendarValue(kMonth, kFirst + 59), 2);  // 2020 was a leap year
  EXPECT_EQ(CalendarValue(kMonth, kFirst + 60), 3);
  EXPECT_EQ(CalendarValue(kMonth, -1), 12);
  for (const CalendarFeature feature : {kWeekday, kHour, kDayOfMonth, kMonth}) {
    for (const double date : {kNaN, 1.01e8, -1.01e8, 1e300}) {
      EXPECT_TRUE(std::isnan(CalendarValue(feature, date)));
    }
    EXPECT_TRUE(std::isfinite(CalendarValue(feature, 1e8)));
    EXPECT_EQ(CalendarFeatureFromName(NameOf(feature)), feature);
  }
  EXPECT_EQ(CalendarFeatureFromName("year"), std::nullopt);
}

TEST(CalendarFeaturesTest, TheSpanDecides) {
  EXPECT_THAT(Of(Span(13)), IsEmpty());
  EXPECT_THAT(Of(Span(14)), ElementsAre(kWeekday));
  EXPECT_THAT(Of(Span(59)), ElementsAre(kWeekday));
  EXPECT_THAT(Of(Span(60)), ElementsAre(kWeekday, kDayOfMonth));
  EXPECT_THAT(Of(Span(179)), ElementsAre(kWeekday, kDayOfMonth));
  EXPECT_THAT(Of(Span(180)), ElementsAre(kWeekday, kDayOfMonth, kMonth));
}

TEST(CalendarFeaturesTest, HoursNeedTimesOfDay) {
  std::vector<double> numbers;
  for (int i = 0; i < 20; ++i) numbers.push_back(kFirst + i / 8.0);
  EXPECT_THAT(Of(Dates(numbers)), ElementsAre(kHour));
  numbers.resize(17);
  EXPECT_THAT(Of(Dates(numbers)), ElementsAre(kHour));  // exactly two days
  for (double& number : numbers) number = kFirst + (number - kFirst) / 2;
  EXPECT_THAT(Of(Dates(numbers)), IsEmpty());
}

TEST(CalendarFeaturesTest, ASeasonReplacesWhatItDetermines) {
  Season season;
  season.step = 1;
  season.period = 7;
  EXPECT_THAT(Of(Span(399, 400), season), IsEmpty());
  EXPECT_THAT(Of(Span(400, 400), season), ElementsAre(kDayOfMonth, kMonth));
  season.period = 5;
  EXPECT_THAT(Of(Span(400, 400), season), ElementsAre(kWeekday, kDayOfMonth, kMonth));
  season.step = 1.0 / 24;
  season.period = 24;
  std::vector<double> hours;
  for (int i = 0; i < 24 * 20; ++i) hours.push_back(kFirst + i / 24.0);
  EXPECT_THAT(Of(Dates(hours), season), ElementsAre(kWeekday));
  season.period = 168;
  EXPECT_THAT(Of(Dates(hours), season), IsEmpty());
  season.period = 12;
  EXPECT_THAT(Of(Dates(hours), season), ElementsAre(kWeekday, kHour));
}

TEST(CalendarFeaturesTest, MonthlyDatesHaveOnlyTheMonth) {
  std::vector<double> numbers;
  for (int year = 0; year < 4; ++year) {
    double day = 17897 + 365.0 * year + (year > 1 ? 1 : 0);  // 2019-01-01
    for (const int length : {31, year == 1 ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}) {
      numbers.push_back(day);
      day += length;
    }
  }
  const Column months = Dates(numbers);
  EXPECT_THAT(Of(months), ElementsAre(kMonth));
  Season season;
  season.months = MonthCount::Of(months);
  ASSERT_TRUE(season.months.has_value());
  season.period = 12;
  EXPECT_THAT(Of(months, season), IsEmpty());
  season.period = 4;
  EXPECT_THAT(Of(months, season), ElementsAre(kMonth));
  numbers[7] = kNaN;
  EXPECT_THAT(Of(Dates(numbers)), ElementsAre(kMonth));
}

TEST(CalendarFeaturesTest, OtherColumnsHaveNone) {
  Column numbers = Span(300);
  numbers.meaning = Meaning::kNumber;
  EXPECT_THAT(Of(numbers), IsEmpty());
  EXPECT_THAT(Of(Span(300, 15)), IsEmpty());
  Column missing = Span(300, 17);
  missing.numbers[3] = kNaN;
  EXPECT_THAT(Of(missing), ElementsAre(kWeekday, kDayOfMonth, kMonth));
  missing.numbers[4] = 1e200;  // no date
  EXPECT_THAT(Of(missing), IsEmpty());
}

// Two dates a row apart in a table without a season; y does not matter.
Dataset IrregularSales() {
  Dataset context;
  context.target = "y";
  Column date = Span(300, 60);
  date.numbers[1] = date.numbers[0];  // many rows repeat a date: no running index
  for (size_t i = 3; i < 40; i += 2) date.numbers[i] = date.numbers[i - 1];
  context.features.columns = {std::move(date)};
  for (int i = 0; i < 60; ++i) context.y.push_back(i % 7);
  return context;
}

ModelConfig WithSeasons() {
  ModelConfig config;
  config.normalize_x = Normalization::kZScore;
  config.season_column = SeasonColumn::kPhase;
  return config;
}

TEST(CalendarFeaturesTest, AreLastColumnsOfTheMatrix) {
  const Dataset context = IrregularSales();
  const FeatureTransform transform = FeatureTransform::Fit(context, WithSeasons()).value();
  EXPECT_THAT(transform.calendar_features(0), ElementsAre(kWeekday, kDayOfMonth, kMonth));
  Table rows;
  rows.columns = {Dates({kFirst, kFirst + 1, kNaN, kFirst + 7})};
  const FeatureMatrix matrix = transform.Apply(rows).value();
  ASSERT_EQ(matrix.features, 4);
  const auto at = [&](int row, int feature) { return matrix.x[row * 4 + feature]; };
  EXPECT_EQ(at(0, 1), at(3, 1));  // the same weekday
  EXPECT_LT(at(0, 1), at(1, 1));
  EXPECT_LT(at(0, 2), at(1, 2));  // days of the month
  EXPECT_EQ(at(0, 3), at(3, 3));  // the same month
  for (int feature = 0; feature < 4; ++feature) {
    EXPECT_EQ(matrix.missing[2 * 4 + feature], 1) << feature;
  }
}

TEST(CalendarFeaturesTest, EndAtTheFeaturesOfTheModel) {
  const Dataset context = IrregularSales();
  ModelConfig config = WithSeasons();
  config.max_features = 3;
  EXPECT_THAT(FeatureTransform::Fit(context, config)->calendar_features(0),
              ElementsAre(kWeekday, kDayOfMonth));
  config.max_features = 1;
  EXPECT_THAT(FeatureTransform::Fit(context, config)->calendar_features(0), IsEmpty());
  config = WithSeasons();
  config.season_column = SeasonColumn::kNone;
  EXPECT_THAT(FeatureTransform::Fit(context, config)->calendar_features(0), IsEmpty());
}

}  // namespace
}  // namespace chorale
