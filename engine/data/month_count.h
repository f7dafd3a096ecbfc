// Counts calendar months for dates that are one day of each month. Such dates are 28 to 31 days
// apart, so in days a year would not be an integer number of steps.
#ifndef CHORALE_ENGINE_DATA_MONTH_COUNT_H_
#define CHORALE_ENGINE_DATA_MONTH_COUNT_H_

#include <cstdint>
#include <optional>

#include "absl/time/civil_time.h"
#include "engine/data/table.h"

namespace chorale {

// The farthest dates of the calendar, in days from 1970-01-01.
inline constexpr double kFarthestDate = 1e8;

// The day of a date in days since 1970-01-01. REQUIRES: abs(date) <= kFarthestDate.
absl::CivilDay DayOf(double date);

// Immutable. Uses the formula of models/research/training/prior/month_count.py.
class MonthCount {
 public:
  // Accepts dates without missing cells and times of day that all fall on the same day of a month,
  // up to the 28th, or all on the last day of their month. Returns nullopt for any other column.
  static std::optional<MonthCount> Of(const Column& column);

  // Months from this day of January 1970 to a date in days since 1970-01-01: an integer for the
  // same day of any month, and linear in days in between. NaN if the date is NaN or beyond
  // kFarthestDate.
  double At(double date) const;

 private:
  explicit MonthCount(int day) : day_(day) {}

  int day_;  // of the month; kLastDay stands for the last day
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_MONTH_COUNT_H_
