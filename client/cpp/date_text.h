// Dates as text: those of ISO 8601, which are read, and those that only look like dates.
#ifndef CHORALE_CLIENT_CPP_DATE_TEXT_H_
#define CHORALE_CLIENT_CPP_DATE_TEXT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace chorale::client {

// The days from 1970-01-01 00:00 UTC to a date, with the time of day as the fraction. Reads
// "2024-01-31"; with a time after "T" or a space: "12:00", "12:00:30", "12:00:30.5" (up to 9
// digits), and then "Z" or an offset: "+01:00", "+0100", "+01"; and "2024-01", which is the first
// of the month. Without an offset the time is taken for UTC. nullopt for any other text, and for
// days that do not exist.
std::optional<double> ParseDate(absl::string_view text);

// Whether a text is a date to a reader, ISO 8601 or not: in digits, in English, a month, a quarter
// or a week; with or without a day of the week and a time.
bool LooksLikeDate(absl::string_view text);

// Whether a number is a day from 1900 to 2100 written like 20240131.
bool LooksLikeDateNumber(absl::string_view number);

// Whether a number is a month from 1900 to 2100 written like 202401.
bool LooksLikeMonthNumber(absl::string_view number);

// "2024-01-31" for a number of days since 1970-01-01; the number itself far beyond the years of
// four digits.
std::string FormatDate(double days);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_DATE_TEXT_H_
