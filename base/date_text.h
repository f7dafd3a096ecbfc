// Dates as text: ISO 8601 dates, which are parsed, and texts that only look like dates.
#ifndef CHORALE_BASE_DATE_TEXT_H_
#define CHORALE_BASE_DATE_TEXT_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace chorale {

// Returns the days from 1970-01-01 00:00 UTC to a date, with the time of day as the fraction.
// Parses "2024-01-31", and "2024-01", which denotes the first day of the month. A day may be
// followed by "T" or a space and a time ("12:00", "12:00:30", or "12:00:30.5" with up to 9 digits),
// and a time by "Z" or an offset ("+01:00", "+0100", "+01"). Times without an offset are in UTC.
// nullopt for other texts, and for days that do not exist.
std::optional<double> ParseDate(absl::string_view text);

// Whether a person reads a text as a date, in any notation: in digits or in English; a day, month,
// quarter or week; with or without a day of the week and a time.
bool LooksLikeDate(absl::string_view text);

// Whether a number is a day from 1900 to 2100 in the notation 20240131.
bool LooksLikeDateNumber(absl::string_view number);

// Whether a number is a month from 1900 to 2100 in the notation 202401.
bool LooksLikeMonthNumber(absl::string_view number);

}  // namespace chorale

#endif  // CHORALE_BASE_DATE_TEXT_H_
