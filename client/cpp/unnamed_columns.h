// Columns of a CSV file without a name, as spreadsheets and data frame libraries write them.
#ifndef CHORALE_CLIENT_CPP_UNNAMED_COLUMNS_H_
#define CHORALE_CLIENT_CPP_UNNAMED_COLUMNS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/csv.h"

namespace chorale::client {

struct UnnamedColumns {
  std::vector<bool> left_out;      // [columns]: whether to drop the column
  std::vector<std::string> notes;  // human-readable warnings about the dropped columns
};

// Returns the columns to drop. A first column without a name that counts the rows is an index
// (pandas' to_csv, R's write.csv), which as a feature would reveal the position of a row. A column
// that counts the rows under a name that pandas gives to unnamed columns is an index as well. A
// column without a name and without cells results from commas at the ends of lines. InvalidArgument
// for any other column without a name.
absl::StatusOr<UnnamedColumns> FindUnnamedColumns(const CsvTable& table);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_UNNAMED_COLUMNS_H_
