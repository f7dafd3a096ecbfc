// Reads and writes CSV (RFC 4180).
#ifndef CHORALE_CLIENT_CPP_CSV_H_
#define CHORALE_CLIENT_CPP_CSV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace chorale::client {

// The cells of a CSV file. Immutable: safe to share between threads.
class CsvTable {
 public:
  const std::vector<std::string>& names() const { return names_; }
  int64_t row_count() const { return static_cast<int64_t>(lines_.size()); }
  int64_t column_count() const { return static_cast<int64_t>(names_.size()); }
  // The index of the column with this name, as it is or in its normal form, or -1.
  int64_t Find(absl::string_view name) const;
  // Requires 0 <= row < row_count() and 0 <= column < column_count(). Valid as long as the table.
  absl::string_view Cell(int64_t row, int64_t column) const;
  // The line of the file where a row starts; the header is on line 1.
  int64_t Line(int64_t row) const { return lines_[row]; }
  // What was made of the file that may not have been meant, as sentences for people.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend class CsvParser;
  friend absl::StatusOr<CsvTable> NormalizeTexts(const CsvTable& table);

  // Removes the columns that are marked, [columns].
  void LeaveOut(const std::vector<bool>& columns);
  // Makes index_of_: once all names are there.
  void IndexNames();

  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, int64_t> index_of_;  // by name
  std::vector<int64_t> lines_;                          // [rows]
  std::string text_;                                    // all cells, row by row
  std::vector<size_t> ends_;                            // [rows * columns] into text_
  std::vector<std::string> notes_;
};

// Parses a file's content: a header line of distinct names, then rows with as many cells as the
// header. Commas, or what TakeDialect (csv_dialect.h) finds instead, separate cells; lines end in
// LF, CRLF or CR; quoted cells may contain commas, doubled quotes and line breaks. Ignores a UTF-8
// byte order mark, blank lines, and spaces and tabs around unquoted cells. Lines of nothing but
// delimiters are no rows, and columns without a name that unnamed_columns.h knows are left out;
// notes say so.
//
// InvalidArgument, with the line, for anything else: no header, an empty or repeated name, a row
// with more or fewer cells, misplaced quotes, an unclosed quote, or invalid UTF-8.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view content);

// The table with all names and cells in their normal form (base/normal_text.h): what looks equal is
// equal. InvalidArgument if a column is then without a name, or two have the same.
absl::StatusOr<CsvTable> NormalizeTexts(const CsvTable& table);

// Parses a file, or standard input if `path` is "-", and normalizes its texts. Errors start with
// the path; InvalidArgument also if the file cannot be read, or is of another kind (csv_dialect.h).
absl::StatusOr<CsvTable> ReadCsv(const std::string& path);

// The cells of one line of CSV, as an option gives them: "a,b", or "\"a, b\",c". InvalidArgument if
// it is none.
absl::StatusOr<std::vector<std::string>> ParseCsvLine(absl::string_view line);

// One line of CSV with its line feed. Cells are quoted if ParseCsv would otherwise change them.
std::string CsvLine(absl::Span<const std::string> cells);

// The shortest decimal that parses to the same double; an empty string for NaN.
std::string FormatDouble(double value);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CSV_H_
