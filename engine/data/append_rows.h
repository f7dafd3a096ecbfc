// Rows that are appended to a registered dataset (Dataset::append_starts).
#ifndef CHORALE_ENGINE_DATA_APPEND_ROWS_H_
#define CHORALE_ENGINE_DATA_APPEND_ROWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/limits.h"
#include "engine/data/table.h"

namespace chorale {

// How rows whose target is missing are handled.
enum class MissingTargets { kReject, kDrop };

// Rows in the form of the rows of the dataset to which they are appended.
struct AppendedRows {
  Table features;  // the dataset's features, in its order, with its names, types and meanings
  std::vector<double> y;  // [rows], finite; at least one row
  int64_t dropped = 0;    // rows without a target, which are not among the others

  int64_t rows() const { return static_cast<int64_t>(y.size()); }
};

// Returns rows of a request in the form of the dataset's rows. The table has the features and the
// target of the dataset, matched by name and converted like query rows (MatchQueryRows):
//
//   texts of a categorical column  normalised like those of a registered table (ReadAsCategories)
//   texts of the target            read like those of a registered table (InferType)
//   converted categories           those of the dataset that query rows with these texts match
//
// Columns that have the type of the dataset keep their categories, so the result of encoding the
// context anew is that of a registration of all rows.
//
// Returns InvalidArgument, with the field of `rows`, for a table that MatchQueryRows rejects, a
// target that is not numeric or finite, or is missing in a row with kReject or in all rows, numbers
// that the column's meaning does not allow, dates for a column without dates or the reverse, and
// categories beyond `limits`. REQUIRES: the dataset is valid.
absl::StatusOr<AppendedRows> MatchAppendedRows(const Dataset& dataset, Table rows,
                                               MissingTargets missing_targets,
                                               const Limits& limits);

// Appends rows to a dataset, which gets another element of append_starts. New categories are added
// to the dictionaries. Returns the error of ValidateDataset if the result is not valid. REQUIRES:
// MatchAppendedRows returned the rows for this dataset.
absl::StatusOr<Dataset> AppendRows(Dataset dataset, const AppendedRows& rows, const Limits& limits);

// Whether the dataset consists of `first_row` rows and these rows, which were either the last to be
// appended, or are encoded with all others. REQUIRES: MatchAppendedRows returned the rows for this
// dataset.
bool HasAppended(const Dataset& dataset, int64_t first_row, const AppendedRows& rows);

// The number of rows before the first append; all rows if there is none.
int64_t BaseRowCount(const Dataset& dataset);
// The number of all other rows.
int64_t AppendedRowCount(const Dataset& dataset);

// The first rows of a dataset, with the appends among them. REQUIRES: 0 < rows <= all rows.
Dataset FirstRows(const Dataset& dataset, int64_t rows);

// The rows of a dataset before the first append, as a dataset without appends. The transform of a
// context is fitted to them. Copies nothing if there is no append. The dataset must outlive it.
class BaseRows {
 public:
  explicit BaseRows(const Dataset& dataset);
  BaseRows(const BaseRows&) = delete;
  BaseRows& operator=(const BaseRows&) = delete;

  const Dataset& operator*() const { return copy_.has_value() ? *copy_ : dataset_; }

 private:
  const Dataset& dataset_;
  std::optional<Dataset> copy_;
};

// The same rows without appends: the content of a registration of all rows, which are then encoded
// anew.
Dataset WithoutAppends(Dataset dataset);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_APPEND_ROWS_H_
