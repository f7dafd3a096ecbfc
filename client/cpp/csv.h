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
  // The index of the column with this name, or with the same normal form; -1 if there is none.
  int64_t Find(absl::string_view name) const;
  // Requires 0 <= row < row_count() and 0 <= column < column_count(). The
  // result is valid as long as the table exists.
  absl::string_view Cell(int64_t row, int64_t column) const;
  // The line of the file where a row starts; the header is on line 1.
  int64_t Line(int64_t row) const { return lines_[row]; }
  // Human-readable warnings about how the file was read.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend class CsvParser;
  friend absl::StatusOr<CsvTable> NormalizeTexts(const CsvTable& table);

  // Drops the marked columns, [columns].
  void LeaveOut(const std::vector<bool>& columns);
  // Creates index_of_, after all names are known.
  void IndexNames();

  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, int64_t> index_of_;  // by name
  std::vector<int64_t> lines_;                          // [rows]
  std::string text_;                                    // all cells, row by row
  std::vector<size_t> ends_;                            // [rows * columns] into text_
  std::vector<std::string> notes_;
};

// Parses the content of a file: a header line of distinct names, then rows with as many cells as
// the header. Cells are separated by commas, or by the delimiter that TakeDialect (csv_dialect.h)
// finds. Lines end in LF, CRLF or CR. Quoted cells may contain commas, doubled quotes and line
// breaks. The parser ignores a UTF-8 byte order mark, blank lines, and spaces and tabs around
// unquoted cells. It skips lines that contain only delimiters, and drops columns without a name
// that unnamed_columns.h recognises; warnings report this.
//
// InvalidArgument, with the line, if there is no header, a name is empty or repeated, a row has
// more or fewer cells than the header, a quote is misplaced or not closed, or the UTF-8 is invalid.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view content);

// Returns the table with all names and cells in their normal form (base/normal_text.h), so that
// texts that look equal are equal. InvalidArgument if a name is then empty or repeated.
absl::StatusOr<CsvTable> NormalizeTexts(const CsvTable& table);

// Parses a file, or standard input if `path` is "-", and normalises its texts. Errors start with
// the path. InvalidArgument also if the file cannot be read or has another format (csv_dialect.h).
absl::StatusOr<CsvTable> ReadCsv(const std::string& path);

// Parses the value of an option as a line of CSV: "a,b", or "\"a, b\",c". InvalidArgument if it is
// not valid CSV.
absl::StatusOr<std::vector<std::string>> ParseCsvLine(absl::string_view line);

// Returns a line of CSV with its line feed. Cells are quoted if ParseCsv would otherwise change
// them.
std::string CsvLine(absl::Span<const std::string> cells);

// Returns a cell's text in quotes, truncated if it is long.
std::string QuotedText(absl::string_view text);

// Returns the shortest decimal that parses to the same double; an empty string for NaN.
std::string FormatDouble(double value);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CSV_H_
