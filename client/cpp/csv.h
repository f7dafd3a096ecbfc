// Reading and writing CSV as RFC 4180 has it.
#ifndef CHORALE_CLIENT_CPP_CSV_H_
#define CHORALE_CLIENT_CPP_CSV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace chorale::client {

// The text of a CSV file, cell by cell. Immutable: safe to share between threads.
class CsvTable {
 public:
  const std::vector<std::string>& names() const { return names_; }
  int64_t row_count() const { return static_cast<int64_t>(lines_.size()); }
  int64_t column_count() const { return static_cast<int64_t>(names_.size()); }
  // Index of the column with that name, or -1.
  int64_t Find(absl::string_view name) const;
  // Requires 0 <= row < row_count() and 0 <= column < column_count(). Lives as long as the table.
  absl::string_view Cell(int64_t row, int64_t column) const;
  // The line of the file on which a row starts; the header is on line 1.
  int64_t Line(int64_t row) const { return lines_[row]; }

 private:
  friend class CsvParser;

  std::vector<std::string> names_;
  std::vector<int64_t> lines_;  // [rows]
  std::string text_;            // all cells, row by row
  std::vector<size_t> ends_;    // [rows * columns] into text_
};

// Parses a file's content: a header line of distinct, non-empty names, then rows with as many cells
// as the header. Separated by commas; lines end in LF, CRLF or CR; quoted cells may hold commas,
// quotes (doubled) and line breaks; a UTF-8 byte order mark is skipped, blank lines are, and so are
// spaces and tabs around a cell that is not quoted.
//
// InvalidArgument, with the line, for anything else: a missing header, an empty or repeated name, a
// row with more or fewer cells, stray quotes, an unclosed quote, bytes that are not UTF-8.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view content);

// The same from a file, or from standard input when `path` is "-". Errors start with the path, and
// InvalidArgument also says that a file cannot be read.
absl::StatusOr<CsvTable> ReadCsv(const std::string& path);

// One line of CSV with its line feed. Cells are quoted where ParseCsv needs it to give back the
// same text.
std::string CsvLine(absl::Span<const std::string> cells);

// The shortest decimal that reads back as the same double; an empty string for NaN.
std::string FormatDouble(double value);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CSV_H_
