#include "engine/data/calendar_features.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "absl/time/civil_time.h"
#include "engine/data/month_count.h"

namespace chorale {
namespace {

constexpr int64_t kFewestDates = 16;
constexpr double kDaysForWeekday = 14;
constexpr double kDaysForHour = 2;
constexpr double kDaysForDayOfMonth = 60;
constexpr double kDaysForMonth = 180;
constexpr double kDaysWithSeason = 400;

constexpr absl::string_view kNames[] = {"weekday", "hour", "day_of_month", "month"};

// In whole milliseconds: a double has fewer digits of the time of day the later the date is, and
// the same time on different days must be the same hour.
double HourOf(double date) {
  constexpr double kMilliseconds = 86'400'000;
  const double time = std::round((date - std::floor(date)) * kMilliseconds);
  return time < kMilliseconds ? 24 * (time / kMilliseconds) : 0;
}

// Whether the period of a season is a multiple of `days`.
bool IsMultiple(const std::optional<Season>& season, double days) {
  if (!season.has_value() || season->months.has_value()) return false;
  const double times = season->period * season->step / days;
  return times > 0.5 && std::abs(times - std::round(times)) < 1e-6;
}

bool HasYears(const std::optional<Season>& season) {
  if (!season.has_value() || !season->months.has_value()) return false;
  const double years = season->period * season->step / 12;
  return years > 0.5 && std::abs(years - std::round(years)) < 1e-6;
}

}  // namespace

absl::string_view NameOf(CalendarFeature feature) { return kNames[static_cast<int>(feature)]; }

std::optional<CalendarFeature> CalendarFeatureFromName(absl::string_view name) {
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<CalendarFeature>(found - std::begin(kNames));
}

double CalendarValue(CalendarFeature feature, double date) {
  if (!(std::abs(date) <= kFarthestDate)) return std::numeric_limits<double>::quiet_NaN();
  switch (feature) {
    case CalendarFeature::kWeekday:
      return static_cast<double>(static_cast<int>(absl::GetWeekday(DayOf(date))));
    case CalendarFeature::kHour:
      return HourOf(date);
    case CalendarFeature::kDayOfMonth:
      return DayOf(date).day();
    case CalendarFeature::kMonth:
      return DayOf(date).month();
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Column CalendarColumn(const Column& dates, CalendarFeature feature) {
  Column values;
  values.name = dates.name;
  values.numbers.reserve(dates.numbers.size());
  for (const double date : dates.numbers) values.numbers.push_back(CalendarValue(feature, date));
  return values;
}

std::vector<CalendarFeature> CalendarFeaturesOf(const Column& column,
                                                const std::optional<Season>& season) {
  if (column.meaning != Meaning::kDate) return {};
  Column known;
  known.meaning = Meaning::kDate;
  for (const double date : column.numbers) {
    if (std::abs(date) <= kFarthestDate) known.numbers.push_back(date);
  }
  if (static_cast<int64_t>(known.numbers.size()) < kFewestDates) return {};
  const auto [first, last] = std::minmax_element(known.numbers.begin(), known.numbers.end());
  const double span = *last - *first;
  const bool has_times = std::any_of(known.numbers.begin(), known.numbers.end(),
                                     [](double date) { return date != std::floor(date); });
  const bool is_monthly = MonthCount::Of(known).has_value();
  const double least = season.has_value() ? kDaysWithSeason : 0;
  std::vector<CalendarFeature> features;
  if (span >= kDaysForWeekday && !is_monthly && !IsMultiple(season, 7)) {
    features.push_back(CalendarFeature::kWeekday);
  }
  if (has_times && span >= kDaysForHour && !IsMultiple(season, 1)) {
    features.push_back(CalendarFeature::kHour);
  }
  if (span >= std::max(kDaysForDayOfMonth, least) && !is_monthly) {
    features.push_back(CalendarFeature::kDayOfMonth);
  }
  if (span >= std::max(kDaysForMonth, least) && !HasYears(season)) {
    features.push_back(CalendarFeature::kMonth);
  }
  return features;
}

}  // namespace chorale
