#include "engine/data/period_search.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "engine/data/wave_fit.h"
#include "gtest/gtest.h"
#include "tests/support/length.h"

namespace chorale {
namespace {

using Random = std::mt19937_64;

double Normal(Random* random) { return std::normal_distribution<double>()(*random); }

double Sine(double turns) { return std::sin(2 * std::numbers::pi * turns); }

std::vector<double> Count(int rows) {
  std::vector<double> t;
  for (int i = 0; i < rows; ++i) t.push_back(i);
  return t;
}

bool Found(const std::optional<FoundPeriod>& found) {
  return found.has_value() && found->chance <= kSeasonLevel;
}

// In how many of 20 series of so many rows a period is found: this one, or any if it is 0.
int FoundIn20(int rows, double period,
              const std::function<std::vector<double>(int, Random*)>& make) {
  Random random(rows);
  int count = 0;
  for (int i = 0; i < 20; ++i) {
    const std::optional<FoundPeriod> found = FindPeriod({{Count(rows), make(rows, &random), {}}});
    if (Found(found) && (period == 0 || std::abs(found->period / period - 1) < 0.03)) ++count;
  }
  return count;
}

// A sine of this period and amplitude, of any phase, and noise of 1.
std::function<std::vector<double>(int, Random*)> SineAndNoise(double amplitude, double period,
                                                              double slope = 0) {
  return [=](int rows, Random* random) {
    const double phase = std::uniform_real_distribution<double>()(*random);
    std::vector<double> y;
    for (int i = 0; i < rows; ++i) {
      y.push_back(amplitude * Sine(i / period + phase) + slope * i + Normal(random));
    }
    return y;
  };
}

// y_i = a y_{i-1} + b y_{i-2} and noise of 1.
std::function<std::vector<double>(int, Random*)> Autoregression(double a, double b) {
  return [=](int rows, Random* random) {
    std::vector<double> y = {0, 0};
    for (int i = 0; i < rows + 200; ++i) {
      y.push_back(a * y[y.size() - 1] + b * y[y.size() - 2] + Normal(random));
    }
    return std::vector<double>(y.end() - rows, y.end());
  };
}

TEST(PeriodSearchTest, FindsAPlainSine) {
  for (const int rows : {36, 48, 60, 72}) {
    EXPECT_GE(FoundIn20(rows, 12, SineAndNoise(10, 12)), 18) << rows;
  }
  EXPECT_GE(FoundIn20(36, 12, SineAndNoise(30, 12)), 19);
  EXPECT_GE(FoundIn20(36, 12, SineAndNoise(10, 12, 0.3)), 19);
  EXPECT_GE(FoundIn20(72, 12, SineAndNoise(2, 12)), 18);
  EXPECT_GE(FoundIn20(42, 7, SineAndNoise(3, 7)), 18);
  EXPECT_GE(FoundIn20(60, 4, SineAndNoise(3, 4)), 17);
}

TEST(PeriodSearchTest, FindsNothingWhereThereIsNone) {
  for (const int rows : {24, 48}) {
    EXPECT_LE(FoundIn20(rows, 0, Autoregression(0, 0)), 1) << rows;
    EXPECT_LE(FoundIn20(rows, 0, Autoregression(1, 0)), 1) << rows;
    EXPECT_LE(FoundIn20(rows, 0, Autoregression(0.8, 0)), 1) << rows;
    for (const double period : {6.0, 12.0}) {  // cycles that keep no time
      const double a = 2 * 0.9 * std::cos(2 * std::numbers::pi / period);
      EXPECT_LE(FoundIn20(rows, 0, Autoregression(a, -0.81)), 2) << rows << ", " << period;
    }
  }
}

// What a curve leaves beside values before is smooth, and no noise.
TEST(PeriodSearchTest, SmoothCurvesHaveNone) {
  using Curve = std::function<double(double, double)>;  // of t and of its share of the span
  const std::vector<std::pair<const char*, Curve>> curves = {
      {"exponential", [](double t, double) { return std::exp(0.1 * t); }},
      {"decay", [](double, double u) { return std::exp(-5 * u); }},
      {"logistic", [](double, double u) { return 1 / (1 + std::exp(-10 * (u - 0.5))); }},
      {"slow logistic", [](double, double u) { return 1 / (1 + std::exp(-5 * (u - 0.3))); }},
      {"whole logistic",
       [](double, double u) { return std::nearbyint(1000 / (1 + std::exp(-10 * (u - 0.5)))); }},
      {"power", [](double, double u) { return std::pow(u, 9); }},
      {"inverse", [](double t, double) { return 1 / (t + 10); }},
      {"root", [](double t, double) { return std::sqrt(t); }},
      {"logarithm", [](double t, double) { return std::log(t + 10); }},
      {"saturation", [](double t, double) { return t / (t + 5); }},
      {"bell", [](double, double u) { return std::exp(-std::pow((u - 0.5) / 0.15, 2)); }},
      {"rise and fall", [](double, double u) { return std::exp(-3 * u) - std::exp(-20 * u); }},
  };
  for (const auto& [name, curve] : curves) {
    for (const int rows : {16, 24, 36, 60, 100, 250}) {
      if ((rows > 100 || rows == 24 || rows == 60) && !FullLength()) continue;
      std::vector<double> y;
      for (int i = 0; i < rows; ++i) y.push_back(curve(i, static_cast<double>(i) / rows));
      EXPECT_FALSE(Found(FindPeriod({{Count(rows), y, {}}}))) << name << ", " << rows;
    }
  }
}

TEST(PeriodSearchTest, AWaveWithHardlyAnyNoiseIsFound) {
  for (const double noise : {0.0, 1e-6, 1e-4, 1e-2}) {
    for (const int rows : {36, 60, 100}) {
      Random random(rows);
      std::vector<double> sine;
      std::vector<double> pattern;
      for (int i = 0; i < rows; ++i) {
        constexpr double kQuarters[] = {1, 5, -2, 0};
        sine.push_back(10 * Sine(i / 12.0 + 0.1) + 0.5 * i + noise * Normal(&random));
        pattern.push_back(kQuarters[i % 4] + 0.1 * i + noise * Normal(&random));
      }
      const std::optional<FoundPeriod> year = FindPeriod({{Count(rows), sine, {}}});
      const std::optional<FoundPeriod> quarters = FindPeriod({{Count(rows), pattern, {}}});
      ASSERT_TRUE(Found(year) && Found(quarters)) << noise << ", " << rows;
      EXPECT_NEAR(year->period, 12, 0.1) << noise << ", " << rows;
      EXPECT_EQ(quarters->period, 4) << noise << ", " << rows;
    }
  }
}

// A smooth series without a wave neither has one nor hides that of another.
TEST(PeriodSearchTest, ASmoothSeriesDoesNotCountBesideOthers) {
  Random random(6);
  const SeriesRows season = {Count(60), SineAndNoise(10, 12)(60, &random), {}};
  SeriesRows curve = {Count(60), {}, {}};
  for (int i = 0; i < 60; ++i) curve.y.push_back(std::log(i + 10));
  const std::optional<FoundPeriod> found = FindPeriod({curve, season});
  ASSERT_TRUE(Found(found));
  EXPECT_EQ(found->period, FindPeriod({season})->period);
  EXPECT_FALSE(Found(FindPeriod({curve, curve})));
}

// A plain yearly sine of which some values are odd.
TEST(PeriodSearchTest, AFewOddValuesDoNotHideASeason) {
  using Spoil = std::function<void(std::vector<double>*)>;
  struct Kind {
    const char* name;
    int least;  // of 20 series of 60 months
    Spoil spoil;
  };
  const std::vector<Kind> kinds = {
      {"ten times a value", 18, [](std::vector<double>* y) { (*y)[25] *= 10; }},
      {"a value of 1e12", 18, [](std::vector<double>* y) { (*y)[25] = 1e12; }},
      {"a zero", 18, [](std::vector<double>* y) { (*y)[25] = 0; }},
      {"two promotions", 10, [](std::vector<double>* y) { (*y)[20] += 60, (*y)[41] += 60; }},
      {"three months of closed shops", 10,
       [](std::vector<double>* y) { (*y)[33] = (*y)[34] = (*y)[35] = 20; }}};
  for (const auto& [name, least, spoil] : kinds) {
    const auto make = [&spoil = spoil](int rows, Random* random) {
      std::vector<double> y = SineAndNoise(10, 12)(rows, random);
      for (double& each : y) each += 50;
      spoil(&y);
      return y;
    };
    EXPECT_GE(FoundIn20(60, 12, make), least) << name;
    if (FullLength()) EXPECT_GE(FoundIn20(120, 12, make), 19) << name;
  }
}

// Beside other columns, too, of which one tells a season of its own.
TEST(PeriodSearchTest, AnOddValueBesideOtherColumns) {
  Random random(9);
  int found = 0;
  int told = 0;
  const int tables = kSanitized ? 3 : 20;
  for (int i = 0; i < tables; ++i) {
    SeriesRows series = {Count(120), SineAndNoise(10, 12)(120, &random), {{}}};
    SeriesRows month = {series.t, series.y, {}};
    for (int row = 0; row < 120; ++row) {
      series.others[0].push_back(Normal(&random));
      series.y[row] += 5 * series.others[0].back();
      month.y[row] += 0.02 * row * row;
    }
    for (int each = 0; each < 12; ++each) {
      month.others.emplace_back();
      for (int row = 0; row < 120; ++row) month.others[each].push_back(row % 12 == each ? 1 : 0);
    }
    series.y[70] = 500;
    found += Found(FindPeriod({series})) ? 1 : 0;
    told += Found(FindPeriod({month})) ? 1 : 0;
  }
  EXPECT_GE(found, tables - 1);
  EXPECT_LE(told, 1);
}

// The double of the period has a wave more, which fits noise.
TEST(PeriodSearchTest, AYearIsNotTwo) {
  int exact = 0;
  for (const int rows : {72, 96, 120, 180, 240}) {
    Random random(rows);
    for (int i = 0; i < 40; ++i) {
      const auto found = FindPeriod({{Count(rows), SineAndNoise(10, 12)(rows, &random), {}}});
      exact += Found(found) && found->period == 12 ? 1 : 0;
    }
  }
  EXPECT_GE(exact, 192);
}

TEST(PeriodSearchTest, SeriesHaveOnePeriodAndPhasesOfTheirOwn) {
  Random random(1);
  std::vector<SeriesRows> series;
  for (int i = 0; i < 50; ++i) {
    SeriesRows one;
    for (int month = i % 7; month < 24 + i % 5; ++month) {
      one.t.push_back(month);
      one.y.push_back(100 * i + (1 + i % 3) * Sine(month / 6.0 + 0.13 * i) + Normal(&random));
    }
    series.push_back(one);
  }
  const std::optional<FoundPeriod> found = FindPeriod(series);
  ASSERT_TRUE(Found(found));
  EXPECT_EQ(found->period, 6);
  // One of them alone would not tell.
  EXPECT_FALSE(Found(FindPeriod({series[0]})));
}

TEST(PeriodSearchTest, ManySeriesOfNoiseHaveNone) {
  Random random(2);
  for (const int count : {2, 10}) {
    std::vector<SeriesRows> noise;
    std::vector<SeriesRows> walks;
    for (int i = 0; i < count; ++i) {
      noise.push_back({Count(60), Autoregression(0, 0)(60, &random), {}});
      walks.push_back({Count(60), Autoregression(1, 0)(60, &random), {}});
    }
    EXPECT_FALSE(Found(FindPeriod(noise))) << count;
    EXPECT_FALSE(Found(FindPeriod(walks))) << count;
  }
}

TEST(PeriodSearchTest, ASeriesThatSaysNothingDoesNotMatter) {
  Random random(3);
  SeriesRows good = {Count(60), SineAndNoise(5, 12)(60, &random), {}};
  const SeriesRows constant = {Count(60), std::vector<double>(60, 4), {}};
  const SeriesRows few = {Count(3), {1, 5, 2}, {}};
  SeriesRows sparse = good;
  for (double& t : sparse.t) t *= 100;
  const std::optional<FoundPeriod> alone = FindPeriod({good});
  const std::optional<FoundPeriod> together = FindPeriod({constant, good, few, sparse});
  ASSERT_TRUE(Found(alone));
  ASSERT_TRUE(Found(together));
  EXPECT_EQ(together->period, alone->period);
  EXPECT_EQ(together->chance, alone->chance);
  EXPECT_FALSE(FindPeriod({constant, few, sparse}).has_value());
  EXPECT_FALSE(FindPeriod({}).has_value());
}

// A week's pattern on five days of it: of the periods 3.5 and 7, which explain as much, the whole.
TEST(PeriodSearchTest, BusinessDaysHaveAWeekOfSevenDays) {
  Random random(4);
  SeriesRows series;
  for (int day = 0; day < 100; ++day) {
    if (day % 7 > 4) continue;
    constexpr double kPattern[] = {5, 10, 2, 13, -5};
    series.t.push_back(day);
    series.y.push_back(kPattern[day % 7] + Normal(&random));
  }
  const std::optional<FoundPeriod> found = FindPeriod({series});
  ASSERT_TRUE(Found(found));
  EXPECT_EQ(found->period, 7);
}

TEST(WaveFitTest, ChanceOfSeveralSeriesIsThatOfABetaDistribution) {
  // By adding the density of Beta(a, b) up to the ratio.
  for (const int series : {1, 3}) {
    const double a = 20;
    const double b = 2 * series;
    const double ratio = 0.6;
    constexpr int kSteps = 200'000;
    double sum = 0;
    for (int i = 0; i < kSteps; ++i) {
      const double x = (i + 0.5) / kSteps * ratio;
      sum += std::pow(x, a - 1) * std::pow(1 - x, b - 1);
    }
    const double beta = std::exp(std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b));
    EXPECT_NEAR(ChanceOfWaves(ratio, 40, series) / (sum * ratio / kSteps / beta), 1, 1e-6);
  }
  EXPECT_EQ(ChanceOfWaves(-1e-9, 10, 1), 0);
  EXPECT_EQ(ChanceOfWaves(1, 10, 1), 1);
  EXPECT_EQ(ChanceOfWaves(1e-9, 20'000, 256), 0);
  EXPECT_EQ(ChanceOfWaves(0.93, 1000, 10), 1);  // less than twice what chance brings
}

}  // namespace
}  // namespace chorale
