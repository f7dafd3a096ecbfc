#include "engine/data/month_count.h"

#include <cmath>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/time/civil_time.h"

namespace chorale {
namespace {

constexpr int kLastDay = 31;
constexpr int kMostSameDay = 28;  // every month has this day
constexpr absl::CivilDay kFirstDate(1970, 1, 1);

absl::CivilDay LastDayOf(absl::CivilMonth month) { return absl::CivilDay(month + 1) - 1; }

// The date of this day of the month.
double StartOf(absl::CivilMonth month, int day) {
  const absl::CivilDay start =
      day == kLastDay ? LastDayOf(month) : absl::CivilDay(month) + (day - 1);
  return static_cast<double>(start - kFirstDate);
}

}  // namespace

absl::CivilDay DayOf(double date) { return kFirstDate + static_cast<int64_t>(std::floor(date)); }

std::optional<MonthCount> MonthCount::Of(const Column& column) {
  if (column.meaning != Meaning::kDate || column.numbers.empty()) return std::nullopt;
  const auto is_day = [](double date) {
    return std::abs(date) <= kFarthestDate && date == std::floor(date);
  };
  if (!absl::c_all_of(column.numbers, is_day)) return std::nullopt;
  const int first = DayOf(column.numbers.front()).day();
  const auto is_same_day = [&](double date) { return DayOf(date).day() == first; };
  if (first <= kMostSameDay && absl::c_all_of(column.numbers, is_same_day)) {
    return MonthCount(first);
  }
  const auto is_last_day = [](double date) {
    const absl::CivilDay day = DayOf(date);
    return day == LastDayOf(absl::CivilMonth(day));
  };
  if (absl::c_all_of(column.numbers, is_last_day)) return MonthCount(kLastDay);
  return std::nullopt;
}

double MonthCount::At(double date) const {
  if (!(std::abs(date) <= kFarthestDate)) return std::numeric_limits<double>::quiet_NaN();
  absl::CivilMonth month(DayOf(date));
  if (date < StartOf(month, day_)) --month;
  const double start = StartOf(month, day_);
  const auto whole = static_cast<double>(month - absl::CivilMonth(kFirstDate));
  return whole + (date - start) / (StartOf(month + 1, day_) - start);
}

}  // namespace chorale
