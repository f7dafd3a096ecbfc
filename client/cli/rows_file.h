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

struct TargetRows {
  DataFrame features;                // exactly the context's feature columns, in its order
  std::vector<std::string> dropped;  // columns of the file that are not features
  std::vector<std::string> notes;    // on cells that count as missing
};

// Reads the context's feature columns from `csv`, with the context's types: booleans and dates may
// be texts or numbers, whichever client registered them. A column that says nothing in the context,
// since it is empty or constant there, takes any cells. InvalidArgument if the file has no rows or
// lacks columns (the message lists them), or if a cell of a numeric column is not a number (the
// message has line and column).
absl::StatusOr<TargetRows> FitRows(const CsvTable& csv, const v1::Context& context,
                                   const MissingMarks& missing);

// Reads one column of numbers, [rows], with NaN for missing cells; a column of booleans or dates as
// `register` reads it. InvalidArgument if there is no
// such column or if a cell is not a number.
absl::StatusOr<std::vector<double>> NumberColumn(const CsvTable& csv, const std::string& name,
                                                 const MissingMarks& missing);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_ROWS_FILE_H_
