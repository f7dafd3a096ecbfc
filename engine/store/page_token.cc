#include "engine/store/page_token.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "engine/data/dataset_codec.h"

namespace chorale {
namespace {

constexpr size_t kChecksumDigits = 16;

std::string Checksum(absl::string_view tenant, absl::string_view last_name) {
  const absl::string_view zero("\0", 1);
  return ContentDigest(absl::StrCat("chorale page token 1", zero, tenant, zero, last_name))
      .substr(0, kChecksumDigits);
}

}  // namespace

std::string MakePageToken(absl::string_view tenant, absl::string_view last_name) {
  return absl::WebSafeBase64Escape(absl::StrCat(Checksum(tenant, last_name), last_name));
}

absl::StatusOr<std::string> ReadPageToken(absl::string_view tenant, absl::string_view token) {
  if (token.empty()) return "";
  std::string content;
  // Check the length first: a hostile token may be as long as a message.
  const bool readable = token.size() <= 2 * (kChecksumDigits + kMaxNameBytes) &&
                        absl::WebSafeBase64Unescape(token, &content) &&
                        content.size() > kChecksumDigits;
  if (readable) {
    const std::string name = content.substr(kChecksumDigits);
    // The comparison of whole tokens also rejects other spellings of the same base64.
    if (MakePageToken(tenant, name) == token) return name;
  }
  return InvalidField("page_token", "was not returned by an earlier page of this list");
}

}  // namespace chorale
