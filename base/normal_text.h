// Which texts are the same to a reader.
#ifndef CHORALE_BASE_NORMAL_TEXT_H_
#define CHORALE_BASE_NORMAL_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace chorale {

// One form for all texts that look equal: Unicode's NFC; each run of white space, of whatever kind
// and with line breaks, one space between words and none at the ends; nothing that is invisible
// (zero-width spaces, soft hyphens, marks of direction). A text that is not valid UTF-8 stays as it
// is.
std::string NormalText(absl::string_view text);

// The text in small letters and without marks, in ASCII where its letters have such a form: "Größe"
// -> "grosse". Other letters stay.
std::string PlainLetters(absl::string_view text);

}  // namespace chorale

#endif  // CHORALE_BASE_NORMAL_TEXT_H_
