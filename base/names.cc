#include "base/names.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/utf8.h"

namespace chorale {
namespace {

constexpr size_t kMaxQuotedBytes = 72;

// Not absl::ascii_isalnum: upper case is rejected, so that names stay distinct on file systems and
// in hosts that fold case.
bool IsLowerOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool IsNameCharacter(char c) { return IsLowerOrDigit(c) || c == '.' || c == '_' || c == '-'; }

}  // namespace

absl::Status ValidateName(absl::string_view field, absl::string_view name) {
  if (name.empty()) return InvalidField(field, "is empty; must match [a-z0-9][a-z0-9._-]{0,62}");
  if (name.size() > kMaxNameBytes) {
    return LimitExceeded(field,
                         absl::StrCat("has ", name.size(), " bytes; the limit is ", kMaxNameBytes));
  }
  if (!IsLowerOrDigit(name.front()) || !std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return InvalidField(
        field, absl::StrCat("must match [a-z0-9][a-z0-9._-]{0,62}, but is ", QuoteName(name)));
  }
  return absl::OkStatus();
}

std::string QuoteName(absl::string_view text) {
  const bool whole = text.size() <= kMaxQuotedBytes;
  absl::string_view shown = text.substr(0, kMaxQuotedBytes);
  // The cut may fall inside a character: drop the bytes of that character.
  if (!whole && !IsValidUtf8(shown)) {
    for (size_t drop = 1; drop <= 3; ++drop) {
      const absl::string_view shorter = shown.substr(0, shown.size() - drop);
      if (IsValidUtf8(shorter)) {
        shown = shorter;
        break;
      }
    }
  }
  const std::string escaped =
      IsValidUtf8(shown) ? absl::Utf8SafeCEscape(shown) : absl::CHexEscape(shown);
  return absl::StrCat("\"", escaped, whole ? "\"" : "...\"");
}

}  // namespace chorale
