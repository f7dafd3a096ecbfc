// Notes for people on how a column of a CSV file was read, where that may not have been meant. They
// name the text at fault and the option of `chorale register` that mends it.
#ifndef CHORALE_CLIENT_CPP_COLUMN_NOTES_H_
#define CHORALE_CLIENT_CPP_COLUMN_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cpp/csv.h"
#include "client/cpp/data_frame.h"
#include "client/cpp/missing_marks.h"

namespace chorale::client {

// Why there is a note. The same for all clients (tests/client/column_cases.json).
enum class NoteReason {
  kReadAsDates,     // all cells are dates in ISO 8601
  kNumbersAsText,   // most cells are numbers in a spelling that is not read
  kDatesAsText,     // most cells are dates in a spelling that is not read
  kDatesAsNumbers,  // all cells are numbers like 20240131, or like 202401
  kMixedTypes,      // some cells are numbers, others are not
  kAllDifferent,    // nearly all cells are different categories
  kMissingMarks,    // cells count as missing that may not be
  kLeadingZeros,    // numbers begin with zeros, as codes do
  kLostDigits,      // integers that a number does not hold
};

// "READ_AS_DATES" and so on.
const char* NameOf(NoteReason reason);

struct ColumnNote {
  std::string column;
  NoteReason reason = NoteReason::kMixedTypes;
  std::string text;
};

// Cells with one text.
struct TextCount {
  std::string text;
  int64_t cells = 0;
  int64_t first_row = -1;
};

// Cells of one kind, whatever their texts.
struct CellCount {
  int64_t cells = 0;
  int64_t first_row = -1;

  void Add(int64_t row) {
    if (cells++ == 0) first_row = row;
  }
};

// What a column has, if it were one of numbers.
struct CellCounts {
  int64_t numbers = 0;
  std::vector<TextCount> others;  // texts that are neither missing nor numbers, by their first row
  int64_t other_cells = 0;
  // Missing in a column of numbers, but a category in one of categories: dashes, dots, "none".
  std::vector<TextCount> dashes;
  // Missing in a column of categories, too, though they may be one: "NA", "None". Not the user's.
  std::vector<TextCount> marks;
  int64_t zeros_and_ones = 0;  // of the numbers
  CellCount leading_zeros;     // numbers that lose a zero at their beginning
  CellCount rounded;           // integers that lose digits
  CellCount odd_numbers;       // of the others: numbers in another spelling
  CellCount dates;             // of the others: dates that ParseDate reads
  CellCount odd_dates;         // of the others: dates in another spelling
  CellCount not_dates;         // of the others: all that ParseDate does not read
  CellCount booleans;          // of the others: "true" and "false" in any case
  CellCount date_numbers;      // of the numbers: those like 20240131
  CellCount month_numbers;     // of the numbers: those like 202401
  // Whether month_numbers has at least three different ones.
  bool has_several_months = false;
};

// Numeric if all cells that are not missing are numbers, or all are booleans, some of which may be
// written as 0 and 1, or all are dates that ParseDate reads; else categorical. A column without any
// of these is one of categories if a dash or a dot is all that it has.
ColumnType TypeOfCells(const CellCounts& cells);

CellCounts CountCells(const CsvTable& csv, int64_t column, const MissingMarks& missing);

// How a column got its type.
enum class TypeChoice { kInferred, kGiven };

std::vector<ColumnNote> NotesOnColumn(const CsvTable& csv, int64_t column, const CellCounts& cells,
                                      ColumnType type, TypeChoice choice);

// A note on the marks that are missing in a column of categories; empty if there are none. `called`
// is how the file's column is named there.
std::string NoteOnMarks(const CellCounts& cells, absl::string_view called);

// A cell's text in quotes, cut if it is long.
std::string QuotedText(absl::string_view text);

// A text as the value of an option that takes a list, for a shell: as a cell of CSV, quoted where
// the shell would change it.
std::string AsOptionValue(absl::string_view text);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_COLUMN_NOTES_H_
