// Converts the columns of query rows to the type of the context's columns.
#ifndef CHORALE_ENGINE_DATA_COLUMN_CONVERSION_H_
#define CHORALE_ENGINE_DATA_COLUMN_CONVERSION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/table.h"

namespace chorale {

// Returns the column of query rows as a column of type `type`. The cells remain the same values:
//
//   from         to           cells
//   text         numeric      parsed in the notation of `meaning` (ParseCell)
//   text         categorical  unchanged; white space is a missing cell
//   numeric      categorical  "true" and "false" for booleans, otherwise the shortest decimal text
//
// InvalidArgument, with the cell's field in `table`, for a text that is not a value of the column,
// and for dates and categories, which no other type can represent. REQUIRES: `type` is not kText,
// and differs from the type of the column, whose cells are valid.
absl::StatusOr<Column> ConvertColumn(absl::string_view table, const Column& column, ColumnType type,
                                     Meaning meaning);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_COLUMN_CONVERSION_H_
