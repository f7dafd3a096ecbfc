// Checks of a table's columns that hold wherever a table comes from: a registration, a request's
// targets, or the disk.
//
// Errors name a column by its name and not by its index, as in `rows.columns["age"]`: chunks are
// joined and the target column is removed before these checks, so an index would mislead.
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

// Limits that nothing exceeds, for data that passed the limits when they were registered.
Limits NoLimits();

// `table`.columns["`column`"], the name shortened if need be.
std::string ColumnPath(absl::string_view table, absl::string_view column);

// `table`.columns["`column`"].numeric.values[`row`]
std::string NumericCellPath(absl::string_view table, absl::string_view column, int64_t row);

// A column's name, found in `field`: non-empty, valid UTF-8 without control characters, within
// max_name_bytes.
absl::Status ValidateColumnName(absl::string_view field, absl::string_view name,
                                const Limits& limits);

// The names of all columns of the table called `table`, each valid and none twice.
absl::Status ValidateColumnNames(absl::string_view table, const Table& columns,
                                 const Limits& limits);

// The first of these numbers that the meaning does not allow; their count if there is none. A
// boolean is 0 or 1, or NaN when it is missing.
size_t FirstBeyondMeaning(Meaning meaning, absl::Span<const double> numbers);

// The error of such a number.
absl::Status BeyondMeaning(absl::string_view field, double number);

// Everything about one column but its name: `rows` cells, numbers without infinities, booleans that
// are 0 or 1, categories that are distinct, valid UTF-8 and within the limits, codes in range.
absl::Status ValidateColumnCells(absl::string_view table, const Column& column, int64_t rows,
                                 const Limits& limits);

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_COLUMN_VALIDATION_H_
