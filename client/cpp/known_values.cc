#include "client/cpp/known_values.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace chorale::client {

absl::Status CheckKnownValues(const v1::KnownValues& known, int64_t row_count,
                              int64_t vector_count) {
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
  const int64_t rows = known.rows_size();
  if (rows > 0 && rows == row_count) {
    return absl::InvalidArgumentError(absl::StrCat("known.rows: the values of all ", row_count,
                                                   " rows are known, at least one must be left"));
  }
  if (known.values_size() != rows && known.values_size() != rows * vector_count) {
    return absl::InvalidArgumentError(
        absl::StrCat("known.values: ", known.values_size(), " values, must be ", rows,
                     vector_count > 1 ? absl::StrCat(" or ", rows * vector_count) : ""));
  }
  for (const double value : known.values()) {
    if (std::isfinite(value)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("known.values: ", value, ", all must be finite"));
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
    const v1::KnownValues& known, int64_t vector_count) {
  if (known.rows().empty()) return absl::OkStatus();
  if (known_log_densities.empty()) return KnownValuesIgnored();
  const int64_t expected = known.values_size() == known.rows_size() ? 1 : vector_count;
  if (known_log_densities.size() == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the server sent ", known_log_densities.size(),
                                          " log-densities of known values instead of ", expected));
}

absl::Status KnownValuesIgnored() {
  return absl::UnimplementedError(
      "the server does not support known values, because it is older than this client: upgrade "
      "the server");
}

}  // namespace chorale::client
