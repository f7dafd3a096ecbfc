#include "client/cpp/groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace chorale::client {

absl::Status CheckGroups(absl::Span<const int32_t> sizes, const v1::KnownValues& known,
                         int64_t row_count) {
  if (sizes.empty()) return absl::OkStatus();
  int64_t sum = 0;
  for (const int32_t size : sizes) {
    if (size <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("group_sizes: ", size, ", all must be positive"));
    }
    sum += size;
  }
  if (sum != row_count) {
    return absl::InvalidArgumentError(
        absl::StrCat("group_sizes: the sum is ", sum, ", must be the ", row_count, " rows"));
  }
  const std::vector<int64_t> group_of = GroupOfEachRow(sizes, row_count);
  std::vector<int32_t> left(sizes.begin(), sizes.end());  // rows that are not known
  for (const int32_t row : known.rows()) {
    if (--left[group_of[row]] > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("known.rows: the values of all rows of group ",
                                                   group_of[row],
                                                   " are known, at least one must be left"));
  }
  return absl::OkStatus();
}

int64_t CountGroups(absl::Span<const int32_t> sizes) {
  return std::max<int64_t>(static_cast<int64_t>(sizes.size()), 1);
}

std::vector<int64_t> GroupOfEachRow(absl::Span<const int32_t> sizes, int64_t row_count) {
  if (sizes.empty()) return std::vector<int64_t>(row_count, 0);
  std::vector<int64_t> group_of;
  group_of.reserve(row_count);
  for (size_t group = 0; group < sizes.size(); ++group) {
    group_of.insert(group_of.end(), sizes[group], static_cast<int64_t>(group));
  }
  return group_of;
}

absl::Status GroupsIgnored() {
  return absl::UnimplementedError(
      "the server does not support groups of query rows, because it is older than this client: "
      "upgrade the server");
}

}  // namespace chorale::client
