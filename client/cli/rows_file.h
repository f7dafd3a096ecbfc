// Rows to predict, read from a CSV file and fitted to the columns of a context.
#ifndef CHORALE_CLIENT_CLI_ROWS_FILE_H_
#define CHORALE_CLIENT_CLI_ROWS_FILE_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "chorale/v1/chorale.pb.h"
#include "client/cpp/csv.h"
#include "client/cpp/data_frame.h"

namespace chorale::client {

using MissingTokens = absl::flat_hash_set<std::string>;

struct TargetRows {
  DataFrame features;                // exactly the context's feature columns, in its order
  std::vector<std::string> dropped;  // columns of the file that the context does not have
};

// Takes the context's feature columns out of `csv`, typed as the context has them, whatever the
// cells look like. InvalidArgument when the file has no rows, listing the columns that are missing,
// or naming line and column of a cell that is no number in a numeric column.
absl::StatusOr<TargetRows> FitRows(const CsvTable& csv, const v1::Context& context,
                                   const MissingTokens& missing);

// One column of numbers, [rows]; NaN where missing. InvalidArgument when there is no such column,
// or naming the cell that is no number.
absl::StatusOr<std::vector<double>> NumberColumn(const CsvTable& csv, const std::string& name,
                                                 const MissingTokens& missing);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_ROWS_FILE_H_
