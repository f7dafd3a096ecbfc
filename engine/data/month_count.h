// Dates that are one day of each month, counted in calendar months: in days these are 28 to 31
// apart, so that a year would have no whole number of steps.
#ifndef CHORALE_ENGINE_DATA_MONTH_COUNT_H_
#define CHORALE_ENGINE_DATA_MONTH_COUNT_H_

#include <cstdint>
#include <optional>

#include "engine/data/table.h"

namespace chorale {

// Immutable. The formula is that of models/research/training/prior/month_count.py.
class MonthCount {
 public:
  // Of dates without missing cells or times of day that are all the same day of a month, up to the
  // 28th, or all the last day of their month; nothing for any other column.
  static std::optional<MonthCount> Of(const Column& column);

  // Months from this day of January 1970 to a date in days since 1970-01-01: a whole number for the
  // same day of any month, and between two of these linear in days. NaN where the date is, or is
  // too far away to tell.
  double At(double date) const;

 private:
  explicit MonthCount(int day) : day_(day) {}

  int day_;  // of the month; kLastDay stands for the last one
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_MONTH_COUNT_H_
