// The rows of a file that a call of Predict is about: those from --first-row on.
#ifndef CHORALE_CLIENT_CLI_PREDICTED_ROWS_H_
#define CHORALE_CLIENT_CLI_PREDICTED_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "chorale/v1/chorale.pb.h"
#include "client/cli/group_by.h"

namespace chorale::client {

struct PredictedRows {
  RowGroups groups;             // of the rows of the request; its order has rows of the file
  v1::KnownValues known;        // of rows of the request
  std::vector<int64_t> others;  // [U]: the predicted rows of the file, in the order of the request
};

// Returns the rows from `first_row` on, with the earlier known rows of their groups, on which their
// predictions are conditional. `all` has the groups of all rows of `file`, and `known` has known
// values of rows of it. Without known values, the rows have the order of the file, because groups
// then have no effect. InvalidArgument if there are no rows to predict.
absl::StatusOr<PredictedRows> RowsFrom(int64_t first_row, const RowGroups& all,
                                       const v1::KnownValues& known, const std::string& file);

// Returns the last row before `first_row` whose value is not known; -1 if there is none.
int64_t PredictedBefore(int64_t first_row, const v1::KnownValues& known);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_PREDICTED_ROWS_H_
