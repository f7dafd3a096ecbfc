// The format of a file: whether it is CSV, and the delimiter of its cells.
#ifndef CHORALE_CLIENT_CPP_CSV_DIALECT_H_
#define CHORALE_CLIENT_CPP_CSV_DIALECT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chorale::client {

// InvalidArgument, with the command that converts `path` to CSV, if the content has a known format
// that is not UTF-8 text: compressed, Parquet, a workbook, or UTF-16.
absl::Status CheckIsText(absl::string_view content, const std::string& path);

struct CsvDialect {
  char delimiter = ',';
  int64_t lines = 0;      // the number of lines before the header that set the delimiter
  std::string note = {};  // a human-readable warning if the delimiter is not a comma
};

// Returns the delimiter of a file. A first line such as "sep=;", as Excel writes it, sets the
// delimiter, and is removed from `content`. Otherwise, if the header contains no comma, the
// delimiter is the first of semicolon, tab and vertical bar that the header and the line after it
// contain. Otherwise it is a comma.
CsvDialect TakeDialect(absl::string_view* content);

// Removes the next physical line, with its line break, from `content` and returns it.
absl::string_view TakeLine(absl::string_view* content);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CSV_DIALECT_H_
