// Numbers as text: texts that are numbers, and texts that only look like numbers.
#ifndef CHORALE_BASE_NUMBER_TEXT_H_
#define CHORALE_BASE_NUMBER_TEXT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace chorale {

// Parses a finite decimal number, with "-" or the typographic minus (U+2212); nullopt for other
// texts.
std::optional<double> ParseNumber(absl::string_view text);

// Returns the shortest decimal text of a finite number, which ParseNumber converts back to it: "3"
// for 3.0 and for -0.0 "0".
std::string FormatNumber(double number);

// Whether a text is a number that is equal to other notations of its value: a number without a
// leading zero, such as the code "007", and not an integer that a double cannot represent.
bool IsPlainNumber(absl::string_view text);

// Whether a person reads a text as a number that ParseNumber rejects: with thousands separators, a
// decimal comma, a currency, a percent sign, a common unit ("5 kg"), in parentheses, after a
// comparison operator, or infinite.
bool LooksLikeNumber(absl::string_view text);

// Whether a number has a leading zero, which its value loses, such as the code "01234".
bool HasLeadingZero(absl::string_view number);

// Whether a number is an integer with more digits than a double can represent: "9007199254740993".
bool IsRoundedInteger(absl::string_view number);

}  // namespace chorale

#endif  // CHORALE_BASE_NUMBER_TEXT_H_
