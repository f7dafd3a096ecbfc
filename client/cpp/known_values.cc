#include "client/cpp/known_values.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/groups.h"

namespace chorale::client {

absl::Status CheckKnownRows(const v1::KnownValues& known, int64_t row_count) {
  std::vector<bool> seen(row_count, false);
  for (const int32_t row : known.rows()) {
    if (row < 0 || row >= row_count) {
      return absl::InvalidArgumentError(
          absl::StrCat("known.rows: ", row, ", must be from 0 to ", row_count - 1));
    }
    if (seen[row]) {
      return absl::InvalidArgumentError(absl::StrCat("known.rows: ", row, " is repeated"));
    }
    seen[row] = true;
  }
  if (known.rows_size() > 0 && known.rows_size() == row_count) {
    return absl::InvalidArgumentError(absl::StrCat("known.rows: the values of all ", row_count,
                                                   " rows are known, at least one must be left"));
  }
  return absl::OkStatus();
}

std::vector<int64_t> OtherRows(const v1::KnownValues& known, int64_t row_count) {
  std::vector<bool> is_known(row_count, false);
  for (const int32_t row : known.rows()) is_known[row] = true;
  std::vector<int64_t> others;
  for (int64_t row = 0; row < row_count; ++row) {
    if (!is_known[row]) others.push_back(row);
  }
  return others;
}

absl::Status CheckKnownLogDensities(
    const google::protobuf::RepeatedField<double>& known_log_densities,
    const v1::KnownValues& known, int64_t vector_count, int64_t group_count) {
  if (known.rows().empty()) return absl::OkStatus();
  if (known_log_densities.empty()) return KnownValuesIgnored();
  const int64_t sets = known.values_size() == known.rows_size() ? 1 : vector_count;
  const int64_t expected = sets * group_count;
  if (known_log_densities.size() == expected) return absl::OkStatus();
  if (known_log_densities.size() == sets) return GroupsIgnored();
  return absl::DataLossError(absl::StrCat("the server sent ", known_log_densities.size(),
                                          " log-densities of known values instead of ", expected));
}

absl::Status KnownValuesIgnored() {
  return absl::UnimplementedError(
      "the server does not support known values, because it is older than this client: upgrade "
      "the server");
}

}  // namespace chorale::client
