// Known values of query rows in requests, and their log-densities in responses.
#ifndef CHORALE_CLIENT_CPP_KNOWN_VALUES_H_
#define CHORALE_CLIENT_CPP_KNOWN_VALUES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "chorale/v1/chorale.pb.h"

namespace chorale::client {

// InvalidArgument unless the rows, if there are any, are distinct rows from [0, row_count), but not
// all of them. The server checks the values.
absl::Status CheckKnownRows(const v1::KnownValues& known, int64_t row_count);

// Returns the query rows whose values are not known, in ascending order. Requires valid rows.
std::vector<int64_t> OtherRows(const v1::KnownValues& known, int64_t row_count);

// Checks the log-densities of the known values in a response. Unimplemented if they are missing, or
// if there are not those of each group. DataLoss if their number is not that of the groups, or that
// of the groups times `vector_count` if each vector has its own values.
absl::Status CheckKnownLogDensities(
    const google::protobuf::RepeatedField<double>& known_log_densities,
    const v1::KnownValues& known, int64_t vector_count, int64_t group_count = 1);

// The error for a server that ignores known values.
absl::Status KnownValuesIgnored();

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_KNOWN_VALUES_H_
