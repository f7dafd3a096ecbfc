// Normal forms of texts: texts that look the same to a reader have the same normal form.
#ifndef CHORALE_BASE_NORMAL_TEXT_H_
#define CHORALE_BASE_NORMAL_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace chorale {

// Returns the normal form of a text: Unicode's NFC, without invisible characters (zero-width
// spaces, soft hyphens, directional marks), with each run of white space replaced by one space, and
// without white space at the ends. A text that is not valid UTF-8 is returned unchanged.
//
// Takes O(n log n) time for any text of n bytes. Insertion sort of combining marks into canonical
// order, which Unicode libraries use, takes O(n^2) time for n marks of one letter.
std::string NormalText(absl::string_view text);

// Returns the normal form if it has at most `max_bytes` bytes, else nullopt. A text that is far
// longer is rejected before it is normalised.
std::optional<std::string> NormalTextWithin(absl::string_view text, size_t max_bytes);

// Returns the text in lower case without marks, and in ASCII where a letter has an ASCII form:
// "Größe" -> "grosse". Other letters are unchanged.
std::string PlainLetters(absl::string_view text);

}  // namespace chorale

#endif  // CHORALE_BASE_NORMAL_TEXT_H_
