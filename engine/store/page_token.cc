#include "engine/store/page_token.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "engine/data/dataset_codec.h"

namespace chorale {
namespace {

constexpr size_t kChecksumDigits = 16;
constexpr size_t kMaxValueCharacters = 20;

std::string Checksum(absl::string_view tenant, absl::string_view list, absl::string_view position) {
  const absl::string_view zero("\0", 1);
  return ContentDigest(
             absl::StrCat("chorale page token 2", zero, tenant, zero, list, zero, position))
      .substr(0, kChecksumDigits);
}

}  // namespace

std::string MakePageToken(absl::string_view tenant, absl::string_view list,
                          const ListPosition& last) {
  const std::string position = absl::StrCat(last.value, ":", last.name);
  return absl::WebSafeBase64Escape(absl::StrCat(Checksum(tenant, list, position), position));
}

absl::StatusOr<std::optional<ListPosition>> ReadPageToken(absl::string_view tenant,
                                                          absl::string_view list,
                                                          absl::string_view token) {
  if (token.empty()) return std::nullopt;
  std::string content;
  // Check the length first: a hostile token may be as long as a message.
  const size_t longest = kChecksumDigits + kMaxValueCharacters + 1 + kMaxNameBytes;
  if (token.size() <= 2 * longest && absl::WebSafeBase64Unescape(token, &content) &&
      content.size() > kChecksumDigits) {
    const std::string position = content.substr(kChecksumDigits);
    const size_t colon = position.find(':');
    ListPosition last;
    if (colon != std::string::npos && absl::SimpleAtoi(position.substr(0, colon), &last.value)) {
      last.name = position.substr(colon + 1);
      // The comparison of whole tokens also rejects other spellings of the same base64.
      if (MakePageToken(tenant, list, last) == token) return last;
    }
  }
  return InvalidField("page_token",
                      "was not returned by an earlier page of a list with this filter and order");
}

}  // namespace chorale
