// Numbers as text: which texts are numbers, and which only look like them.
#ifndef CHORALE_CLIENT_CPP_NUMBER_TEXT_H_
#define CHORALE_CLIENT_CPP_NUMBER_TEXT_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace chorale::client {

// Parses a finite decimal number, with "-" or the typographic minus (U+2212); nullopt for any other
// text.
std::optional<double> ParseNumber(absl::string_view text);

// Whether a text that is no number for ParseNumber is one to a reader: with signs of thousands, a
// decimal comma, a currency, per cent, a common unit ("5 kg"), in parentheses, with a comparison in
// front, or infinite.
bool LooksLikeNumber(absl::string_view text);

// Whether a number begins with a zero that its value does not keep, as codes do: "01234".
bool HasLeadingZero(absl::string_view number);

// Whether a number is an integer with more digits than a double keeps: "9007199254740993".
bool IsRoundedInteger(absl::string_view number);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_NUMBER_TEXT_H_
