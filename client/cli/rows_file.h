// Converts rows of a CSV file to the columns of a context.
#ifndef CHORALE_CLIENT_CLI_ROWS_FILE_H_
#define CHORALE_CLIENT_CLI_ROWS_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "chorale/v1/chorale.pb.h"
#include "client/cpp/csv.h"
#include "client/cpp/data_frame.h"
#include "client/cpp/missing_marks.h"

namespace chorale::client {

struct QueryRows {
  DataFrame features;                // exactly the context's feature columns, in its order
  std::vector<std::string> dropped;  // columns of the file that are not features
  std::vector<std::string> notes;    // warnings about cells that are read as missing
};

// Reads the context's features from `csv`, as strings, which the server parses by the context's
// columns. InvalidArgument if the file has no rows, or if columns are missing (the message lists
// them).
absl::StatusOr<QueryRows> FitRows(const CsvTable& csv, const v1::Context& context,
                                  const MissingMarks& missing);

// Reads a column of values of the target [rows], with NaN for missing cells: numbers, or booleans
// or dates, as the server infers for a target. InvalidArgument if there is no such column, or if a
// cell is not a number.
absl::StatusOr<std::vector<double>> NumberColumn(const CsvTable& csv, const std::string& name,
                                                 const MissingMarks& missing);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_ROWS_FILE_H_
