// Checks of a table's columns for every source of a table: a registration, the query rows of a
// request, or the disk.
//
// Errors identify a column by its name instead of its index, as in `rows.columns["age"]`: chunks
// are joined and the target column is removed before these checks, so an index would mislead.
#ifndef CHORALE_ENGINE_DATA_COLUMN_VALIDATION_H_
#define CHORALE_ENGINE_DATA_COLUMN_VALIDATION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/data/limits.h"
#include "engine/data/table.h"

namespace chorale {

// Limits that no data exceed, for data that were checked at registration.
Limits NoLimits();

// `table`.columns["`column`"], with a long name shortened.
std::string ColumnPath(absl::string_view table, absl::string_view column);

// `table`.columns["`column`"].numeric.values[`row`]
std::string NumericCellPath(absl::string_view table, absl::string_view column, int64_t row);

// Checks the name of a column in `field`: non-empty, valid UTF-8 without control characters, within
// max_name_bytes.
absl::Status ValidateColumnName(absl::string_view field, absl::string_view name,
                                const Limits& limits);

// Checks the names of all columns of the table `table`: each is valid, and all are distinct.
absl::Status ValidateColumnNames(absl::string_view table, const Table& columns,
                                 const Limits& limits);

// Returns the index of the first number that the meaning does not allow, or the count of the
// numbers if there is none. A boolean is 0, 1, or NaN for a missing cell.
size_t FirstBeyondMeaning(Meaning meaning, absl::Span<const double> numbers);

// The error for such a number.
absl::Status BeyondMeaning(absl::string_view field, double number);

// The error for a number whose scaled value exceeds the range of float32.
absl::Status ScaledTooLarge(absl::string_view table, absl::string_view column, int64_t row,
                            double number);

// Checks a column except its name: `rows` cells, numbers without infinities, booleans that are 0 or
// 1, categories that are distinct, valid UTF-8 and within the limits, codes in range.
absl::Status ValidateColumnCells(absl::string_view table, const Column& column, int64_t rows,
                                 const Limits& limits);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_COLUMN_VALIDATION_H_
