// Calendar features: numbers such as the day of the week, which the model gets in addition to a
// column of dates. A model hardly learns a recurring effect from a date, which is a number of days.
#ifndef CHORALE_ENGINE_DATA_CALENDAR_FEATURES_H_
#define CHORALE_ENGINE_DATA_CALENDAR_FEATURES_H_

#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/data/season.h"
#include "engine/data/table.h"

namespace chorale {

enum class CalendarFeature {
  kWeekday,     // 0 for Monday to 6 for Sunday
  kHour,        // of the day in UTC, with minutes and seconds as the fraction: below 24
  kDayOfMonth,  // 1 to 31
  kMonth,       // 1 to 12
};

// "weekday", "hour", "day_of_month" or "month".
absl::string_view NameOf(CalendarFeature feature);
// The inverse; nullopt for any other name.
std::optional<CalendarFeature> CalendarFeatureFromName(absl::string_view name);

// The value on a date in days since 1970-01-01 00:00 UTC. NaN if the date is NaN or more than 1e8
// days from 1970.
double CalendarValue(CalendarFeature feature, double date);

// The value of each row, with the name of the column of dates.
Column CalendarColumn(const Column& dates, CalendarFeature feature);

// Returns the calendar features of a column that may help a model, in the order of CalendarFeature;
// none unless the column has the meaning kDate and at least 16 dates.
//
//   weekday       the dates span at least 14 days, and are not one day of each month
//   hour          some date has a time of day, and the dates span at least 2 days
//   day of month  the dates span at least 60 days, or 400 with a season
//   month         the dates span at least 180 days, or 400 with a season
//
// `season` is the season of the target by this column, if there is one. A feature that its phase
// determines is omitted: the weekday if the period is a multiple of 7 days, the hour if it is a
// multiple of a day, and the month if it is a multiple of 12 months. Over less than 400 days, the
// day and the month mislead a model that has the phase
// (models/research/evaluate/calendar.md).
std::vector<CalendarFeature> CalendarFeaturesOf(const Column& column,
                                                const std::optional<Season>& season);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_CALENDAR_FEATURES_H_
