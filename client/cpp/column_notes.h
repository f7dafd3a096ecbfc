// Warnings about how a column of a CSV file was read, if this may be unintended. Each names the
// affected text and the option of `chorale register` that corrects it.
#ifndef CHORALE_CLIENT_CPP_COLUMN_NOTES_H_
#define CHORALE_CLIENT_CPP_COLUMN_NOTES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/text_cells.h"
#include "client/cpp/csv.h"
#include "client/cpp/data_frame.h"
#include "client/cpp/missing_marks.h"

namespace chorale::client {

// The reason for a warning. The same for all clients (tests/client/column_cases.json).
enum class NoteReason {
  kReadAsDates,     // all cells are ISO 8601 dates
  kNumbersAsText,   // most cells are numbers in a notation that is not parsed
  kDatesAsText,     // most cells are dates in a notation that is not parsed
  kDatesAsNumbers,  // all cells are numbers like 20240131, or like 202401
  kMixedTypes,      // some cells are numbers, others are not
  kAllDistinct,     // nearly all cells are distinct categories
  kMissingMarks,    // cells that are read as missing may be categories
  kLeadingZeros,    // numbers begin with zeros, as codes do
  kLostDigits,      // integers that a double cannot represent
};

// Returns the name of a reason, such as "READ_AS_DATES".
const char* NameOf(NoteReason reason);

struct ColumnNote {
  std::string column;
  NoteReason reason = NoteReason::kMixedTypes;
  std::string text;
};

// Counts of the cells of a column, for the decision whether it is numeric.
struct CellCounts : TextCells {
  // Texts that are missing in a numeric column, but categories in a categorical column: dashes,
  // dots, "none".
  std::vector<TextCount> dashes;
  // Texts that are missing in a categorical column as well, but may be categories: "NA", "None".
  // Excludes the user's marks.
  std::vector<TextCount> marks;
};

// Returns numeric if all cells that are not missing are numbers, or all are booleans (some may be
// written as 0 and 1), or all are dates that ParseDate parses, and otherwise categorical. A column
// without such cells is categorical if it contains only dashes and dots, and otherwise numeric.
ColumnType TypeOfCells(const CellCounts& cells);

CellCounts CountCells(const CsvTable& csv, int64_t column, const MissingMarks& missing);

// How the type of a column was determined.
enum class TypeChoice { kInferred, kGiven };

std::vector<ColumnNote> NotesOnColumn(const CsvTable& csv, int64_t column, const CellCounts& cells,
                                      ColumnType type, TypeChoice choice);

// Returns a warning about marks that are read as missing in a categorical column; empty if there
// are none. `called` is the description of the column in the warning.
std::string NoteOnMarks(const CellCounts& cells, absl::string_view called);

// Returns a cell's text in quotes, truncated if it is long.
std::string QuotedText(absl::string_view text);

// Returns a text as the value of a list option in a shell: as a cell of CSV, quoted if the shell
// would change it.
std::string AsOptionValue(absl::string_view text);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_COLUMN_NOTES_H_
