#include "base/date_text.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/time/civil_time.h"

namespace chorale {
namespace {

constexpr size_t kLongestDate = 64;  // longer texts do not look like dates
constexpr int64_t kNanosPerMinute = 60'000'000'000;
constexpr int64_t kNanosPerDay = int64_t{24} * 60 * kNanosPerMinute;
constexpr absl::CivilDay kEpoch(1970, 1, 1);

bool IsDateDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool IsDateLetter(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); }

// Reads a text from its start. A method that returns false consumes nothing.
class DateReader {
 public:
  explicit DateReader(absl::string_view text) : rest_(text) {}

  bool AtEnd() const { return rest_.empty(); }
  bool Take(char c) { return absl::ConsumePrefix(&rest_, absl::string_view(&c, 1)); }
  // Reads a number of exactly `digits` digits that is at most `most`.
  bool TakeNumber(size_t digits, int most, int* number) {
    const absl::string_view text = rest_.substr(0, digits);
    if (text.size() < digits || !std::all_of(text.begin(), text.end(), IsDateDigit)) return false;
    int value = 0;
    if (!absl::SimpleAtoi(text, &value) || value > most) return false;
    rest_.remove_prefix(digits);
    *number = value;
    return true;
  }
  // Reads up to nine digits after a decimal point as nanoseconds.
  bool TakeFraction(int64_t* nanos) {
    size_t digits = 0;
    while (digits < rest_.size() && IsDateDigit(rest_[digits])) ++digits;
    if (digits == 0 || digits > 9) return false;
    int64_t value = 0;
    if (!absl::SimpleAtoi(rest_.substr(0, digits), &value)) return false;
    for (size_t i = digits; i < 9; ++i) value *= 10;
    rest_.remove_prefix(digits);
    *nanos = value;
    return true;
  }

 private:
  absl::string_view rest_;
};

std::optional<absl::CivilDay> DayOf(int year, int month, int day) {
  if (year < 1 || month < 1 || month > 12 || day < 1) return std::nullopt;
  const absl::CivilDay civil(year, month, day);
  if (civil.month() != month || civil.day() != day) return std::nullopt;  // a 30th of February
  return civil;
}

// "12:00", "12:00:30", "12:00:30.5": the nanoseconds since midnight.
std::optional<int64_t> TakeTime(DateReader* reader) {
  int hours = 0;
  int minutes = 0;
  int seconds = 0;
  int64_t nanos = 0;
  if (!reader->TakeNumber(2, 23, &hours) || !reader->Take(':') ||
      !reader->TakeNumber(2, 59, &minutes)) {
    return std::nullopt;
  }
  if (reader->Take(':')) {
    if (!reader->TakeNumber(2, 59, &seconds)) return std::nullopt;
    if (reader->Take('.') && !reader->TakeFraction(&nanos)) return std::nullopt;
  }
  return (hours * 60 + minutes) * kNanosPerMinute + seconds * int64_t{1'000'000'000} + nanos;
}

// "Z", "+01:00", "+0100", "+01", or nothing: the minutes ahead of UTC.
std::optional<int> TakeOffset(DateReader* reader) {
  if (reader->AtEnd() || reader->Take('Z')) return 0;
  const int sign = reader->Take('-') ? -1 : 1;
  if (sign > 0 && !reader->Take('+')) return std::nullopt;
  int hours = 0;
  int minutes = 0;
  if (!reader->TakeNumber(2, 23, &hours)) return std::nullopt;
  const bool colon = reader->Take(':');
  if ((colon || !reader->AtEnd()) && !reader->TakeNumber(2, 59, &minutes)) return std::nullopt;
  return sign * (hours * 60 + minutes);
}

// ---- Texts that look like dates -------------------------------------------------------------

bool IsYear(absl::string_view digits) {
  return digits.size() == 4 && (digits[0] == '1' || digits[0] == '2');
}

// Whether up to two digits are a number from 1 to `most`.
bool IsUpTo(absl::string_view digits, int most) {
  int value = 0;
  return digits.size() <= 2 && absl::SimpleAtoi(digits, &value) && value >= 1 && value <= most;
}

// "31.01.2024", "1/31/24", "2024-1-3", "01/2024", "2024/1": digits with a separator.
bool IsDateInDigits(absl::string_view text) {
  std::vector<absl::string_view> groups;
  const size_t first = text.find_first_of("-/.");
  if (first == absl::string_view::npos) return false;
  const char sign = text[first];
  while (true) {
    const size_t end = std::min(text.find(sign), text.size());
    const absl::string_view group = text.substr(0, end);
    if (group.empty() || !std::all_of(group.begin(), group.end(), IsDateDigit)) return false;
    groups.push_back(group);
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  if (groups.size() == 2) {
    return (IsYear(groups[0]) && IsUpTo(groups[1], 12)) ||
           (IsUpTo(groups[0], 12) && IsYear(groups[1]));
  }
  if (groups.size() != 3 || groups[1].size() > 2) return false;
  const bool year_first = groups[0].size() == 4 && groups[2].size() <= 2;
  const bool year_last = groups[0].size() <= 2 && (groups[2].size() == 4 || groups[2].size() == 2);
  return year_first || year_last;
}

// Whether `word`, in lower case, is a name or at least its first `fewest` letters.
template <size_t n>
bool IsOneOf(absl::string_view word, const absl::string_view (&names)[n], size_t fewest) {
  return word.size() >= fewest &&
         std::any_of(std::begin(names), std::end(names), [&](absl::string_view name) {
           return name == word || (absl::StartsWith(name, word) && word.size() <= fewest + 2);
         });
}

constexpr absl::string_view kMonths[] = {"january",   "february", "march",    "april",
                                         "may",       "june",     "july",     "august",
                                         "september", "october",  "november", "december"};
constexpr absl::string_view kDays[] = {"monday", "tuesday",  "wednesday", "thursday",
                                       "friday", "saturday", "sunday"};

// Returns a letter for a word of a date: M for a month, D for a day of the week, Q and W for
// themselves, and o for the suffix of an ordinal number; '\0' for any other word.
char KindOfWord(absl::string_view word) {
  if (word == "q") return 'Q';
  if (word == "w") return 'W';
  if (word == "st" || word == "nd" || word == "rd" || word == "th") return 'o';
  if (IsOneOf(word, kMonths, 3)) return 'M';
  return IsOneOf(word, kDays, 3) ? 'D' : '\0';
}

// Returns Y for a year, and 1 or 2 for a number with so many digits, such as a day or a week; '\0'
// for any other number.
char KindOfNumber(absl::string_view digits) {
  if (IsYear(digits)) return 'Y';
  if (!IsUpTo(digits, 99)) return '\0';
  return digits.size() == 2 ? '2' : '1';
}

// Returns the kinds of the words and numbers of a text, without days of the week and ordinal
// suffixes; empty if the text has parts that dates do not have.
std::string KindsOfWords(absl::string_view text) {
  std::string kinds;
  while (!text.empty()) {
    size_t size = 0;
    if (absl::StrContains(" ,./-'", text.substr(0, 1))) {
      text.remove_prefix(1);
      continue;
    }
    const bool number = IsDateDigit(text[0]);
    while (size < text.size() && (number ? IsDateDigit(text[size]) : IsDateLetter(text[size])))
      ++size;
    const absl::string_view part = text.substr(0, size);
    const char kind = number ? KindOfNumber(part) : KindOfWord(absl::AsciiStrToLower(part));
    if (kind == '\0') return "";
    if (kind != 'D' && kind != 'o') kinds += kind;
    text.remove_prefix(size);
  }
  return kinds;
}

// "Jan 2024", "31-Jan-24", "Wed, 31 January 2024", "January 31st, 2024", "2024Q1", "2024-W05".
bool IsDateInWords(absl::string_view text) {
  static constexpr absl::string_view kForms[] = {"MY",  "YM",  "M2",  "1MY", "2MY", "M1Y",
                                                 "M2Y", "YM1", "YM2", "1M2", "2M2", "YQ1",
                                                 "Q1Y", "1QY", "YW2", "W2Y", "YW21"};
  const std::string kinds = KindsOfWords(text);
  return std::find(std::begin(kForms), std::end(kForms), kinds) != std::end(kForms);
}

// Returns the text without a time at its end, as in "1/31/24 3:04 PM"; empty if it has a colon that
// is not part of a time.
absl::string_view WithoutTime(absl::string_view text) {
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos) return text;
  if (text.find_first_not_of("0123456789:.,+- ZAPMUTCGapm", colon) != absl::string_view::npos) {
    return "";
  }
  size_t begin = colon;
  while (begin > 0 && IsDateDigit(text[begin - 1])) --begin;
  absl::string_view date = text.substr(0, begin);
  if (!absl::ConsumeSuffix(&date, "T") && !absl::ConsumeSuffix(&date, " ")) return "";
  absl::ConsumeSuffix(&date, ",");
  return date;
}

// Reads the year and month of a number like 20240131 or 202401.
bool TakeMonthNumber(DateReader* reader, int* year, int* month) {
  return reader->TakeNumber(4, 2100, year) && *year >= 1900 && reader->TakeNumber(2, 12, month) &&
         *month >= 1;
}

}  // namespace

std::optional<double> ParseDate(absl::string_view text) {
  DateReader reader(text);
  int year = 0;
  int month = 0;
  int day = 1;
  if (!reader.TakeNumber(4, 9999, &year) || !reader.Take('-') ||
      !reader.TakeNumber(2, 12, &month)) {
    return std::nullopt;
  }
  int64_t nanos = 0;
  if (!reader.AtEnd()) {
    if (!reader.Take('-') || !reader.TakeNumber(2, 31, &day)) return std::nullopt;
    if (reader.Take('T') || reader.Take(' ')) {
      const std::optional<int64_t> time = TakeTime(&reader);
      const std::optional<int> offset = time.has_value() ? TakeOffset(&reader) : std::nullopt;
      if (!offset.has_value()) return std::nullopt;
      nanos = *time - *offset * kNanosPerMinute;
    }
  }
  const std::optional<absl::CivilDay> civil = DayOf(year, month, day);
  if (!civil.has_value() || !reader.AtEnd()) return std::nullopt;
  int64_t days = *civil - kEpoch;
  // An offset may move the time to the previous or next day.
  if (nanos < 0) --days, nanos += kNanosPerDay;
  if (nanos >= kNanosPerDay) ++days, nanos -= kNanosPerDay;
  return static_cast<double>(days) + static_cast<double>(nanos) / static_cast<double>(kNanosPerDay);
}

bool LooksLikeDate(absl::string_view text) {
  if (text.size() > kLongestDate) return false;
  if (ParseDate(text).has_value()) return true;
  const absl::string_view date = WithoutTime(text);
  return IsDateInDigits(date) || IsDateInWords(date);
}

bool LooksLikeDateNumber(absl::string_view number) {
  absl::ConsumeSuffix(&number, ".0");
  DateReader reader(number);
  int year = 0;
  int month = 0;
  int day = 0;
  return TakeMonthNumber(&reader, &year, &month) && reader.TakeNumber(2, 31, &day) &&
         reader.AtEnd() && DayOf(year, month, day).has_value();
}

bool LooksLikeMonthNumber(absl::string_view number) {
  absl::ConsumeSuffix(&number, ".0");
  DateReader reader(number);
  int year = 0;
  int month = 0;
  return TakeMonthNumber(&reader, &year, &month) && reader.AtEnd();
}

}  // namespace chorale
