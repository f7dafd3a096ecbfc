// Which texts are the same to a reader.
#ifndef CHORALE_BASE_NORMAL_TEXT_H_
#define CHORALE_BASE_NORMAL_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace chorale {

// One form for all texts that look equal: Unicode's NFC; each run of white space, of whatever kind
// and with line breaks, one space between words and none at the ends; nothing that is invisible
// (zero-width spaces, soft hyphens, marks of direction). A text that is not valid UTF-8 stays as it
// is.
//
// Time: n log n for n bytes, whatever they are. Unicode's canonical order of marks by insertion, as
// libraries find it, takes n^2 steps for n marks of a letter.
std::string NormalText(absl::string_view text);

// The normal form if it has at most so many bytes, else nothing. A text that is much longer is not
// brought to its normal form at all.
std::optional<std::string> NormalTextWithin(absl::string_view text, size_t max_bytes);

// The text in small letters and without marks, in ASCII where its letters have such a form: "Größe"
// -> "grosse". Other letters stay.
std::string PlainLetters(absl::string_view text);

}  // namespace chorale

#endif  // CHORALE_BASE_NORMAL_TEXT_H_
