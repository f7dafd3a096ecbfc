// Numbers as text: texts that are numbers, and texts that only look like numbers.
#ifndef CHORALE_CLIENT_CPP_NUMBER_TEXT_H_
#define CHORALE_CLIENT_CPP_NUMBER_TEXT_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace chorale::client {

// Parses a finite decimal number, with "-" or the typographic minus (U+2212); nullopt for other
// texts.
std::optional<double> ParseNumber(absl::string_view text);

// Whether a person reads a text as a number that ParseNumber rejects: with thousands separators, a
// decimal comma, a currency, a percent sign, a common unit ("5 kg"), in parentheses, after a
// comparison operator, or infinite.
bool LooksLikeNumber(absl::string_view text);

// Whether a number has a leading zero, which its value loses, such as the code "01234".
bool HasLeadingZero(absl::string_view number);

// Whether a number is an integer with more digits than a double can represent: "9007199254740993".
bool IsRoundedInteger(absl::string_view number);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_NUMBER_TEXT_H_
