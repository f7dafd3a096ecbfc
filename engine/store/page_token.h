// Where the next page of a listing starts, as an opaque string.
#ifndef CHORALE_ENGINE_STORE_PAGE_TOKEN_H_
#define CHORALE_ENGINE_STORE_PAGE_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chorale {

// A token for the records after `last_name`, valid for this tenant's listings only. URL-safe.
std::string MakePageToken(absl::string_view tenant, absl::string_view last_name);

// The name in a token; empty for the empty token, which is the start of the listing.
// InvalidField("page_token", ...) for anything that MakePageToken did not make for this tenant.
// The checksum finds mistakes, not forgeries: a tenant gains nothing by forging a token for its own
// listing.
absl::StatusOr<std::string> ReadPageToken(absl::string_view tenant, absl::string_view token);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_PAGE_TOKEN_H_
