// Validates names of contexts and models, and quotes user-chosen names for messages.
#ifndef CHORALE_BASE_NAMES_H_
#define CHORALE_BASE_NAMES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chorale {

// The maximum length of the name of a context or a model.
inline constexpr size_t kMaxNameBytes = 63;

// Returns InvalidField(field, ...) unless `name` matches [a-z0-9][a-z0-9._-]{0,62}. Such a name is
// safe as a component of a path and of a URL: it has no separator and is never "." or "..".
absl::Status ValidateName(absl::string_view field, absl::string_view name);

// Returns `text` in double quotes for an error message: unprintable bytes are escaped, and the
// result is valid UTF-8 of at most about 300 bytes for any input.
std::string QuoteName(absl::string_view text);

}  // namespace chorale

#endif  // CHORALE_BASE_NAMES_H_
