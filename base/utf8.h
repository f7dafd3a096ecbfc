// Checks of UTF-8 text.
#ifndef CHORALE_BASE_UTF8_H_
#define CHORALE_BASE_UTF8_H_

#include "absl/strings/string_view.h"

namespace chorale {

// Well-formed UTF-8 as in Unicode's table 3-7: no overlong forms, no surrogates, no code point
// above U+10FFFF.
bool IsValidUtf8(absl::string_view text);

// Returns true if the text contains a control character: U+0000 to U+001F and U+007F to U+009F.
// REQUIRES: IsValidUtf8(text).
bool HasControlCharacter(absl::string_view text);

}  // namespace chorale

#endif  // CHORALE_BASE_UTF8_H_
