// Opaque tokens for the start of the next page of a listing.
#ifndef CHORALE_ENGINE_STORE_PAGE_TOKEN_H_
#define CHORALE_ENGINE_STORE_PAGE_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale {

// Returns a URL-safe token for the records after `last_name`, valid only for this tenant's
// listings.
std::string MakePageToken(absl::string_view tenant, absl::string_view last_name);

// Returns the name in a token; empty for the empty token, which stands for the start of the
// listing. Returns InvalidField("page_token", ...) for any token that MakePageToken did not return
// for this tenant. The checksum detects mistakes, not forgeries: a tenant gains nothing from a
// forged token for its own listing.
absl::StatusOr<std::string> ReadPageToken(absl::string_view tenant, absl::string_view token);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_PAGE_TOKEN_H_
