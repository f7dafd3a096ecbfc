#include "engine/data/season.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "engine/data/feature_transform.h"
#include "engine/data/turns.h"
#include "engine/model/model_config.h"
#include "gtest/gtest.h"
#include "tests/engine/data/make_column.h"
#include "tests/support/length.h"

namespace chorale {
namespace {

using Json = nlohmann::json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// --- Against the reference: the file is made by tests/golden/make_seasons.py -----------------

Json Cases() {
  std::ifstream file(CHORALE_SOURCE_DIR "/tests/golden/seasons.json");
  return Json::parse(file);
}

std::vector<double> NumbersOf(const Json& array) {
  std::vector<double> numbers;
  for (const Json& number : array) {
    numbers.push_back(number.is_null() ? kNaN : number.get<double>());
  }
  return numbers;
}

Dataset DatasetOf(const Json& each) {
  std::vector<std::string> categories;
  for (int i = 0; i < 26; ++i) categories.push_back(std::string(1, static_cast<char>('a' + i)));
  Dataset dataset;
  for (const Json& column : each["columns"]) {
    const std::string name = "column " + std::to_string(dataset.features.columns.size());
    const std::vector<double> cells = NumbersOf(column["cells"]);
    if (!column["categorical"].get<bool>()) {
      dataset.features.columns.push_back(Numbers(name, cells));
      if (column.contains("date")) dataset.features.columns.back().meaning = Meaning::kDate;
      continue;
    }
    std::vector<int32_t> codes;
    for (const double cell : cells) {
      codes.push_back(std::isnan(cell) ? kMissingCode : static_cast<int32_t>(cell));
    }
    dataset.features.columns.push_back(Categories(name, categories, codes));
  }
  dataset.target = "y";
  dataset.y = NumbersOf(each["y"]);
  return dataset;
}

ModelConfig AskingForPhase() {
  ModelConfig config;
  config.normalize_x = Normalization::kZScore;
  config.normalize_y = Normalization::kZScore;
  config.season_column = SeasonColumn::kPhase;
  return config;
}

// A request whose index is `cells` and all else missing; the last column of what the model reads.
void ExpectPhaseColumn(const Dataset& context, const Json& each) {
  const auto transform = FeatureTransform::Fit(context, AskingForPhase());
  ASSERT_TRUE(transform.ok()) << transform.status();
  Table request;
  const std::vector<double> cells = NumbersOf(each["request"]);
  for (const Column& column : context.features.columns) {
    request.columns.push_back(column.type == ColumnType::kNumeric
                                  ? Numbers(column.name, std::vector<double>(cells.size(), kNaN))
                                  : Categories(column.name, column.categories,
                                               std::vector<int32_t>(cells.size(), kMissingCode)));
  }
  request.columns[each["season"]["column"].get<size_t>()].numbers = cells;
  const auto matrix = transform->Apply(request);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  const std::vector<double> expected = NumbersOf(each["request_values"]);
  for (size_t row = 0; row < expected.size(); ++row) {
    const size_t cell = (row + 1) * matrix->features - 1;
    const bool missing = !matrix->missing.empty() && matrix->missing[cell] != 0;
    ASSERT_EQ(missing, std::isnan(expected[row])) << row;
    if (!missing) {
      EXPECT_NEAR(matrix->x[cell], expected[row], 1e-6) << row;
    }
  }
}

TEST(SeasonTest, MatchesTheReference) {
  const Json cases = Cases();
  ASSERT_GE(cases.size(), 40u);
  for (const Json& each : cases) {
    SCOPED_TRACE(each["name"].get<std::string>());
    const Dataset context = DatasetOf(each);
    if (context.y.size() > 500 && !FullLength()) continue;
    const std::optional<Season> season = FindSeason(context).season;
    ASSERT_EQ(season.has_value(), !each["season"].is_null());
    if (!season.has_value()) continue;
    const Json& expected = each["season"];
    EXPECT_EQ(season->column, expected["column"].get<int64_t>());
    EXPECT_EQ(season->first, expected["first"].get<double>());
    EXPECT_EQ(season->step, expected["step"].get<double>());
    EXPECT_NEAR(season->period / expected["period"].get<double>(), 1, 1e-12);
    const std::vector<double> request = NumbersOf(each["request"]);
    const std::vector<double> phases = NumbersOf(each["request_phases"]);
    for (size_t row = 0; row < request.size(); ++row) {
      const double phase = season->Phase(request[row]);
      ASSERT_EQ(std::isnan(phase), std::isnan(phases[row])) << row;
      if (!std::isnan(phase)) {
        EXPECT_NEAR(phase, phases[row], 1e-6) << row;
      }
    }
    ExpectPhaseColumn(context, each);
  }
}

// --- By itself -------------------------------------------------------------------------------

double AngleOf(double turns) { return 2 * std::numbers::pi * turns; }

// y of row i: a season of 12 steps that is no sine, and a little of something else.
std::vector<double> Seasonal(int rows) {
  std::vector<double> y;
  for (int i = 0; i < rows; ++i) {
    y.push_back(std::sin(AngleOf(i / 12.0)) + 0.5 * std::cos(AngleOf(i / 6.0)) +
                0.3 * std::sin(i * i * 0.37));
  }
  return y;
}

std::vector<double> Count(int rows) {
  std::vector<double> x;
  for (int i = 0; i < rows; ++i) x.push_back(i);
  return x;
}

Dataset SeasonalDataset(int rows) {
  Dataset dataset;
  dataset.features.columns = {Numbers("month_number", Count(rows))};
  dataset.target = "y";
  dataset.y = Seasonal(rows);
  return dataset;
}

FeatureTransform Fit(const Dataset& dataset, const ModelConfig& config) {
  auto transform = FeatureTransform::Fit(dataset, config);
  EXPECT_TRUE(transform.ok()) << transform.status();
  return *std::move(transform);
}

int64_t Features(const Dataset& dataset, const ModelConfig& config) {
  return Fit(dataset, config).Apply(dataset.features)->features;
}

TEST(SeasonTest, TurnsAreThoseOfTheCLibraryWithinRounding) {
  for (int i = -4000; i <= 4000; ++i) {
    const double turns = i / 640.0;
    const SineCosine found = OfTurns(turns);
    EXPECT_NEAR(found.sine, std::sin(AngleOf(turns - std::round(turns))), 4e-16) << turns;
    EXPECT_NEAR(found.cosine, std::cos(AngleOf(turns - std::round(turns))), 4e-16) << turns;
  }
  EXPECT_EQ(OfTurns(0.25).sine, 1);
  EXPECT_EQ(OfTurns(1e9 + 0.5).cosine, -1);
}

TEST(SeasonTest, AddsThePhaseAsTheLastColumn) {
  const Dataset dataset = SeasonalDataset(60);
  const FeatureTransform transform = Fit(dataset, AskingForPhase());
  const FeatureMatrix matrix = *transform.Apply(dataset.features);
  ASSERT_EQ(matrix.features, 2);
  for (int row = 12; row < 60; ++row) {
    EXPECT_FLOAT_EQ(matrix.x[2 * row + 1], matrix.x[2 * (row - 12) + 1]);
    EXPECT_GT(matrix.x[2 * row], matrix.x[2 * (row - 1)]);
  }
  ASSERT_EQ(transform.context_notes().size(), 1u);
  EXPECT_EQ(transform.context_notes()[0].column, "month_number");
  EXPECT_EQ(transform.context_notes()[0].season_steps, 12);
}

TEST(SeasonTest, AMissingIndexIsAMissingPhase) {
  const Dataset dataset = SeasonalDataset(60);
  const FeatureTransform transform = Fit(dataset, AskingForPhase());
  Table request;
  request.columns = {Numbers("month_number", {kNaN, 72, 1e308})};
  std::vector<ColumnNote> notes;
  const FeatureMatrix matrix = *transform.Apply(request, &notes);
  const std::vector<uint8_t> missing = {1, 1, 0, 0, 0, 0};
  EXPECT_EQ(matrix.missing, missing);
  for (const float x : matrix.x) EXPECT_TRUE(std::isfinite(x));
  ASSERT_EQ(notes.size(), 1u);  // 1e308 lies outside the bulk; of the season nothing is said again
  EXPECT_EQ(notes[0].season_steps, 0);
}

TEST(SeasonTest, OnlyWhereItIsAskedForAndFits) {
  Dataset dataset = SeasonalDataset(60);
  ModelConfig config = AskingForPhase();
  EXPECT_EQ(Features(dataset, config), 2);
  config.max_features = 2;
  EXPECT_EQ(Features(dataset, config), 2);
  config.max_features = 1;
  EXPECT_EQ(Features(dataset, config), 1);
  config.max_features = 0;
  config.season_column = SeasonColumn::kNone;
  EXPECT_EQ(Features(dataset, config), 1);
  config.season_column = SeasonColumn::kPhase;
  dataset.seasons = Seasons::kNotSought;
  EXPECT_EQ(Features(dataset, config), 1);
  EXPECT_TRUE(Fit(dataset, config).context_notes().empty());
}

TEST(SeasonTest, WhatIsKnownIsNotSoughtAgain) {
  const Dataset dataset = SeasonalDataset(60);
  const FeatureTransform found = Fit(dataset, AskingForPhase());
  EXPECT_TRUE(found.sought_season());
  const auto known = FeatureTransform::Fit(dataset, AskingForPhase(),
                                           KnownSeason{0, found.context_notes()[0].season_steps});
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->Apply(dataset.features)->x, found.Apply(dataset.features)->x);
  EXPECT_EQ(known->context_notes()[0].season_steps, 12);
  const auto other = FeatureTransform::Fit(dataset, AskingForPhase(), KnownSeason{0, 5.5});
  EXPECT_EQ(other->context_notes()[0].season_steps, 5.5);
  const auto none = FeatureTransform::Fit(dataset, AskingForPhase(), KnownSeason());
  EXPECT_EQ(none->Apply(dataset.features)->features, 1);
  // What cannot be is taken for nothing.
  EXPECT_FALSE(RestoreSeason(dataset, {1, 12}).has_value());
  Dataset constant = dataset;
  constant.features.columns[0].numbers.assign(60, 1);
  EXPECT_FALSE(RestoreSeason(constant, {0, 12}).has_value());

  ModelConfig without = AskingForPhase();
  without.season_column = SeasonColumn::kNone;
  EXPECT_FALSE(Fit(dataset, without).sought_season());
}

TEST(SeasonTest, WithoutASeasonNothingChanges) {
  Dataset dataset = SeasonalDataset(60);
  for (size_t i = 0; i < dataset.y.size(); ++i) dataset.y[i] = static_cast<double>(i * i % 7919);
  ModelConfig without = AskingForPhase();
  without.season_column = SeasonColumn::kNone;
  const FeatureMatrix expected = *Fit(dataset, without).Apply(dataset.features);
  const FeatureMatrix found = *Fit(dataset, AskingForPhase()).Apply(dataset.features);
  EXPECT_EQ(found.features, expected.features);
  EXPECT_EQ(found.x, expected.x);
}

TEST(SeasonTest, DoesNotDependOnTheOrderOfRowsOrTheNumbersOfCategories) {
  Dataset dataset = SeasonalDataset(96);
  std::vector<int32_t> codes;
  for (int i = 0; i < 96; ++i) codes.push_back(i * i % 5 % 3);
  dataset.features.columns.push_back(Categories("group", {"a", "b", "c"}, codes));
  const std::optional<Season> expected = FindSeason(dataset).season;
  ASSERT_TRUE(expected.has_value());

  Dataset other = dataset;
  Column& group = other.features.columns[1];
  group.categories = {"c", "unused", "a", "b"};
  const int32_t renumber[] = {2, 3, 0};
  for (int i = 0; i < 96; ++i) {
    const int from = i * 37 % 96;
    other.features.columns[0].numbers[i] = dataset.features.columns[0].numbers[from];
    group.codes[i] = renumber[codes[from]];
    other.y[i] = dataset.y[from];
  }
  const std::optional<Season> found = FindSeason(other).season;
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->period, expected->period);
  EXPECT_EQ(found->first, expected->first);
  EXPECT_EQ(found->step, expected->step);
}

// --- Several series, and what is said of columns ------------------------------------------------

// Stores with a season of 12 months each, of other phases and levels.
Dataset Stores(int stores, int months) {
  Dataset dataset;
  std::vector<std::string> names;
  std::vector<int32_t> codes;
  std::vector<double> t;
  std::mt19937_64 random(stores);
  std::normal_distribution<double> noise;
  for (int store = 0; store < stores; ++store) {
    names.push_back(absl::StrCat("s", store));
    for (int month = 0; month < months; ++month) {
      codes.push_back(store);
      t.push_back(month);
      dataset.y.push_back(20 * store + 10 * std::sin(AngleOf(month / 12.0 + 0.37 * store)) +
                          noise(random));
    }
  }
  dataset.features.columns = {Categories("store", names, codes), Numbers("month", t)};
  dataset.target = "y";
  return dataset;
}

TEST(SeasonTest, SeveralSeriesHaveOnePeriod) {
  for (const auto& [stores, months] : {std::pair(2, 60), std::pair(3, 60), std::pair(50, 36)}) {
    const Dataset dataset = Stores(stores, months);
    const SeasonSearch search = FindSeason(dataset);
    ASSERT_TRUE(search.season.has_value()) << stores;
    EXPECT_EQ(search.season->column, 1);
    EXPECT_EQ(search.season->period, 12);
    EXPECT_EQ(search.verdicts[1], IndexVerdict::kSeason);
    const std::optional<Season> restored = RestoreSeason(dataset, {1, 12});
    ASSERT_TRUE(restored.has_value());
    EXPECT_EQ(restored->first, search.season->first);
    EXPECT_EQ(restored->step, search.season->step);
  }
}

TEST(SeasonTest, SeveralSeriesDoNotDependOnTheOrderOfRowsOrTheNumbersOfCategories) {
  Dataset dataset = Stores(5, 37);
  const SeasonSearch expected = FindSeason(dataset);
  ASSERT_TRUE(expected.season.has_value());
  Dataset other = dataset;
  Column& store = other.features.columns[0];
  store.categories = {"s4", "unused", "s0", "s3", "s1", "s2"};
  const int32_t renumber[] = {2, 4, 5, 3, 0};
  for (int i = 0; i < 185; ++i) {
    const int row = (i * 88 + 3) % 185;
    store.codes[i] = renumber[dataset.features.columns[0].codes[row]];
    other.features.columns[1].numbers[i] = dataset.features.columns[1].numbers[row];
    other.y[i] = dataset.y[row];
  }
  const SeasonSearch found = FindSeason(other);
  ASSERT_TRUE(found.season.has_value());
  EXPECT_EQ(found.season->period, expected.season->period);
}

// The season of the second series is not hidden by the first, which has none.
TEST(SeasonTest, BothOfTwoSeriesAreSearched) {
  Dataset dataset = Stores(2, 60);
  for (int month = 0; month < 60; ++month) dataset.y[month] = month * month * 37 % 101;
  const std::optional<Season> season = FindSeason(dataset).season;
  ASSERT_TRUE(season.has_value());
  EXPECT_EQ(season->period, 12);
}

TEST(SeasonTest, LongAndManySeriesAreSearchedInTheirLastRows) {
  EXPECT_EQ(FindSeason(Stores(40, 170)).season->period, 12);
  if (!FullLength()) return;
  EXPECT_EQ(FindSeason(Stores(2, 800)).season->period, 12);
  EXPECT_EQ(FindSeason(Stores(300, 65)).season->period, 12);
}

// Rows at one place are one, with the means of their y and of other columns.
TEST(SeasonTest, RowsAtOnePlaceInAnyOrderHaveTheSameBits) {
  Dataset dataset = SeasonalDataset(96);
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> other;
  std::vector<int32_t> codes;
  for (int i = 0; i < 96; ++i) {
    other.push_back(i % 9 == 0 ? kNaN : 1e3 * normal(random));
    codes.push_back(i * i % 5 % 3);
    dataset.y[i] += 0.3 * std::sin(AngleOf(i / 12.17));
  }
  dataset.features.columns.push_back(Numbers("other", other));
  dataset.features.columns.push_back(Categories("group", {"a", "b", "c"}, codes));
  const auto repeat = [&](int row) {
    dataset.features.columns[0].numbers.push_back(dataset.features.columns[0].numbers[row]);
    dataset.features.columns[1].numbers.push_back(normal(random));
    dataset.features.columns[2].codes.push_back(codes[row]);
    dataset.y.push_back(dataset.y[row] + normal(random));
  };
  for (const int row : {40, 40, 40, 77}) repeat(row);
  const SeasonSearch expected = FindSeason(dataset);
  ASSERT_TRUE(expected.season.has_value());
  EXPECT_NEAR(expected.season->period, 12, 0.2);
  EXPECT_EQ(expected.verdicts[0], IndexVerdict::kSeason);
  const std::optional<Season> restored = RestoreSeason(dataset, {0, expected.season->period});
  ASSERT_TRUE(restored.has_value());
  EXPECT_EQ(restored->first, expected.season->first);
  EXPECT_EQ(restored->step, expected.season->step);
  for (int turn = 1; turn <= 3; ++turn) {
    Dataset same = dataset;
    for (int i = 0; i < 100; ++i) {
      const int row = (i * 37 + turn) % 100;
      for (const int column : {0, 1}) {
        same.features.columns[column].numbers[i] = dataset.features.columns[column].numbers[row];
      }
      same.features.columns[2].codes[i] = dataset.features.columns[2].codes[row];
      same.y[i] = dataset.y[row];
    }
    EXPECT_EQ(FindSeason(same).season->period, expected.season->period) << turn;
  }
  repeat(50);
  repeat(51);
  EXPECT_EQ(FindSeason(dataset).verdicts[0], IndexVerdict::kRepeats);
}

TEST(SeasonTest, TheLastRowsOfALongSeriesAreWholePlaces) {
  if (!FullLength()) return;
  Dataset dataset = SeasonalDataset(1060);
  for (int i = 0; i < 20; ++i) {  // the window begins in the midst of these
    dataset.features.columns[0].numbers.push_back(50);
    dataset.y.push_back(i);
  }
  const std::optional<Season> season = FindSeason(dataset).season;
  ASSERT_TRUE(season.has_value());
  EXPECT_EQ(season->period, 12);
}

// --- Months
// ---------------------------------------------------------------------------------------

// The first of each month from 2015-01 on, in days since 1970-01-01.
std::vector<double> Months(int count, int apart = 1) {
  std::vector<double> dates;
  for (int i = 0; i < count; ++i) {
    const absl::CivilDay day(absl::CivilMonth(2015, 1) + i * apart);
    dates.push_back(static_cast<double>(day - absl::CivilDay(1970, 1, 1)));
  }
  return dates;
}

// A yearly sine and a trend of 0.5 by dates of so many months apart.
Dataset ByDate(int rows, int apart, int seed) {
  Dataset dataset;
  dataset.features.columns = {Numbers("date", Months(rows, apart))};
  dataset.features.columns[0].meaning = Meaning::kDate;
  dataset.target = "y";
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  for (int i = 0; i < rows; ++i) {
    dataset.y.push_back(10 * std::sin(AngleOf((i * apart + seed) / 12.0)) + 0.5 * i +
                        normal(random));
  }
  return dataset;
}

TEST(SeasonTest, AYearOfDatesHasTwelveMonths) {
  for (int seed = 0; seed < 10; ++seed) {
    const std::optional<Season> season = FindSeason(ByDate(60, 1, seed)).season;
    ASSERT_TRUE(season.has_value()) << seed;
    EXPECT_EQ(season->period, 12) << seed;
    EXPECT_EQ(season->step, 1);
    const std::vector<double> later = Months(100);
    for (int i = 60; i < 100; ++i) EXPECT_NEAR(season->Phase(later[i]), i % 12, 2e-6);
    EXPECT_NEAR(season->Phase(later[63] + 15), 3.5, 2e-6);  // in the midst of April
  }
}

TEST(SeasonTest, AYearOfQuartersHasFourSteps) {
  const Dataset dataset = ByDate(60, 3, 2);
  const std::optional<Season> season = FindSeason(dataset).season;
  ASSERT_TRUE(season.has_value());
  EXPECT_EQ(season->period, 4);
  EXPECT_EQ(season->step, 3);
  const std::vector<ColumnNote> notes = Fit(dataset, AskingForPhase()).context_notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].season_steps, 4);
  EXPECT_EQ(notes[0].season_months, 12);
}

TEST(SeasonTest, MonthsAreRestored) {
  const Dataset dataset = ByDate(60, 1, 3);
  const FeatureTransform found = Fit(dataset, AskingForPhase());
  const auto known = FeatureTransform::Fit(dataset, AskingForPhase(), KnownSeason{0, 12});
  ASSERT_TRUE(known.ok()) << known.status();
  Table request;
  request.columns = {Numbers("date", {16'000, 17'014.25, 20'000, kNaN, 1e300})};
  EXPECT_EQ(known->Apply(request)->x, found.Apply(request)->x);
  EXPECT_EQ(known->context_notes()[0].season_months, 12);
  Dataset plain = dataset;
  plain.features.columns[0].meaning = Meaning::kNumber;
  EXPECT_FALSE(RestoreSeason(plain, {0, 12})->months.has_value());
  EXPECT_EQ(Fit(plain, AskingForPhase()).context_notes()[0].season_months, 0);
}

TEST(SeasonTest, SaysOfEachColumnWhyItIsNoIndex) {
  Dataset dataset = Stores(2, 40);
  std::vector<double> hidden = Count(80);
  hidden[3] = kNaN;
  std::vector<double> uneven = Count(80);
  uneven[3] = 3.9;
  dataset.features.columns.push_back(Numbers("hidden", hidden));
  dataset.features.columns.push_back(Numbers("uneven", uneven));
  SeasonSearch search = FindSeason(dataset);
  EXPECT_EQ(search.verdicts[1], IndexVerdict::kSeason);
  EXPECT_EQ(search.verdicts[2], IndexVerdict::kMissingCells);
  EXPECT_EQ(search.verdicts[3], IndexVerdict::kUneven);
  // Without the column that tells the series the months repeat.
  dataset.features.columns.erase(dataset.features.columns.begin());
  search = FindSeason(dataset);
  EXPECT_FALSE(search.season.has_value());
  EXPECT_EQ(search.verdicts[0], IndexVerdict::kRepeats);

  dataset = SeasonalDataset(60);
  for (size_t i = 0; i < dataset.y.size(); ++i) dataset.y[i] = static_cast<double>(i * i % 7919);
  EXPECT_EQ(FindSeason(dataset).verdicts[0], IndexVerdict::kNoPeriod);
  for (int i = 0; i < 49; ++i) dataset.features.columns.push_back(Numbers("x", Seasonal(60)));
  EXPECT_EQ(FindSeason(dataset).verdicts[0], IndexVerdict::kTooManyColumns);
}

TEST(SeasonTest, APureWaveHasItsPeriodOrAMultiple) {
  Dataset dataset = SeasonalDataset(64);
  for (int i = 0; i < 64; ++i) dataset.y[i] = std::sin(AngleOf(i / 8.0));
  const std::optional<Season> season = FindSeason(dataset).season;
  ASSERT_TRUE(season.has_value());
  EXPECT_EQ(std::fmod(season->period, 8), 0);
}

TEST(SeasonTest, ExtremeNumbersAreNoIndexAndNoSeason) {
  Dataset dataset = SeasonalDataset(60);
  const Dataset before = dataset;
  for (int i = 0; i < 60; ++i) {
    dataset.features.columns[0].numbers[i] = -1.7e308 + i * (1.7e308 / 30);
  }
  EXPECT_FALSE(FindSeason(dataset).season.has_value());
  dataset = before;
  dataset.features.columns[0].numbers.assign(60, 5);
  EXPECT_FALSE(FindSeason(dataset).season.has_value());
  dataset = before;
  dataset.features.columns[0].numbers[59] = 1e9;  // one gap, but the rest is not worth the time
  EXPECT_FALSE(FindSeason(dataset).season.has_value());
}

}  // namespace
}  // namespace chorale
