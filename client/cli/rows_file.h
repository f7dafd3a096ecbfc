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

// Reads the context's features from `csv`, with the context's types. Booleans and dates may be
// texts or numbers, regardless of the client that registered them. For a feature that the model
// ignores, because it is empty or constant in the context, any cells are valid. InvalidArgument if
// the file has no rows, if columns are missing (the message lists them), or if a cell of a numeric
// column is not a number (the message has the line and the column).
absl::StatusOr<QueryRows> FitRows(const CsvTable& csv, const v1::Context& context,
                                  const MissingMarks& missing);

// Reads a column of numbers [rows], with NaN for missing cells, and columns of booleans and dates
// as `register` does. InvalidArgument if there is no such column, or if a cell is not a number.
absl::StatusOr<std::vector<double>> NumberColumn(const CsvTable& csv, const std::string& name,
                                                 const MissingMarks& missing);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_ROWS_FILE_H_
