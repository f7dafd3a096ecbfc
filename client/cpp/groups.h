// Groups of consecutive query rows in requests.
#ifndef CHORALE_CLIENT_CPP_GROUPS_H_
#define CHORALE_CLIENT_CPP_GROUPS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "chorale/v1/chorale.pb.h"

namespace chorale::client {

// `sizes` [G] has the sizes of the groups. If it is empty, all rows count as one group.

// InvalidArgument unless `sizes` is empty, or has positive sizes with the sum `row_count`; and if
// all rows of a group are known. Requires valid known values (known_values.h).
absl::Status CheckGroups(absl::Span<const int32_t> sizes, const v1::KnownValues& known,
                         int64_t row_count);

// The number of groups, at least 1.
int64_t CountGroups(absl::Span<const int32_t> sizes);

// Returns the group of each row [row_count]. Requires valid sizes.
std::vector<int64_t> GroupOfEachRow(absl::Span<const int32_t> sizes, int64_t row_count);

// The error for a server that ignores groups.
absl::Status GroupsIgnored();

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_GROUPS_H_
