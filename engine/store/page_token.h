// Opaque tokens for the start of the next page of a list of contexts.
#ifndef CHORALE_ENGINE_STORE_PAGE_TOKEN_H_
#define CHORALE_ENGINE_STORE_PAGE_TOKEN_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/context_list_sql.h"

namespace chorale {

// Returns a URL-safe token for the contexts after `last`, valid only for this tenant's list of this
// identity (IdentityOfList).
std::string MakePageToken(absl::string_view tenant, absl::string_view list,
                          const ListPosition& last);

// Returns the position in a token; nothing for the empty token, which stands for the start of the
// list. Returns InvalidField("page_token", ...) for any token that MakePageToken did not return for
// this list of this tenant. The checksum detects mistakes, not forgeries: a tenant gains nothing
// from a forged token for its own list.
absl::StatusOr<std::optional<ListPosition>> ReadPageToken(absl::string_view tenant,
                                                          absl::string_view list,
                                                          absl::string_view token);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_PAGE_TOKEN_H_
