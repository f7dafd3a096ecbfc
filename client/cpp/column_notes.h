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

struct ColumnNote {
  std::string column;
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
  CellCount leading_zeros;  // numbers that lose a zero at their beginning
  CellCount rounded;        // integers that lose digits
  CellCount odd_numbers;    // of the others: numbers in another spelling
  CellCount dates;          // of the others

  // Whether all cells that are not missing are numbers. A column without numbers is one of
  // categories if a dash or a dot is all that it has.
  bool ReadsAsNumbers() const { return others.empty() && (numbers > 0 || dashes.empty()); }
};

CellCounts CountCells(const CsvTable& csv, int64_t column, const MissingMarks& missing);

// How a column got its type.
enum class TypeChoice { kInferred, kGiven };

std::vector<std::string> NotesOnColumn(const CsvTable& csv, int64_t column, const CellCounts& cells,
                                       ColumnKind kind, TypeChoice choice);

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
