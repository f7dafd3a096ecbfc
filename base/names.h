// Names of contexts and models, and how names that users chose appear in messages.
#ifndef CHORALE_BASE_NAMES_H_
#define CHORALE_BASE_NAMES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chorale {

// Most bytes of the name of a context or a model.
inline constexpr size_t kMaxNameBytes = 63;

// InvalidField(field, ...) unless `name` is [a-z0-9][a-z0-9._-]{0,62}. Such a name is safe as a
// component of a path and of a URL: no separator, never "." or "..".
absl::Status ValidateName(absl::string_view field, absl::string_view name);

// `text` in double quotes, fit for an error message: unprintable bytes escaped, always valid UTF-8,
// and no longer than some 300 bytes, however long and hostile the text is.
std::string QuoteName(absl::string_view text);

}  // namespace chorale

#endif  // CHORALE_BASE_NAMES_H_
