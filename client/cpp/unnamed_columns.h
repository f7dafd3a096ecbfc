// Columns of a CSV file without a name of their own, as spreadsheets and data frames write them.
#ifndef CHORALE_CLIENT_CPP_UNNAMED_COLUMNS_H_
#define CHORALE_CLIENT_CPP_UNNAMED_COLUMNS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/csv.h"

namespace chorale::client {

// Which of them are to be left out.
struct UnnamedColumns {
  std::vector<bool> left_out;      // [columns]
  std::vector<std::string> notes;  // for people, on what is left out and why
};

// A first column that counts the rows is an index (pandas' to_csv, R's write.csv): as a feature it
// would tell the place of a row. So is any column that counts the rows under a name that pandas
// gives to columns without one. A column without cells comes from commas at the ends of lines.
// InvalidArgument for any other column without a name.
absl::StatusOr<UnnamedColumns> FindUnnamedColumns(const CsvTable& table);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_UNNAMED_COLUMNS_H_
