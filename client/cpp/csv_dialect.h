// What kind of file a table comes in: what is not CSV, and what separates its cells.
#ifndef CHORALE_CLIENT_CPP_CSV_DIALECT_H_
#define CHORALE_CLIENT_CPP_CSV_DIALECT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chorale::client {

// InvalidArgument, with the command that converts `path` to CSV, if the content is that of a known
// kind of file that is no text in UTF-8: compressed, Parquet, a workbook, or UTF-16.
absl::Status CheckIsText(absl::string_view content, const std::string& path);

struct CsvDialect {
  char delimiter = ',';
  int64_t lines = 0;      // lines before the header, which say it
  std::string note = {};  // for people, if it is not a comma
};

// What separates the cells of a file: what its first line says ("sep=;", as Excel writes it), which
// is then taken from `content`; else a semicolon or a tab, if the header has these and no comma,
// and so has the line after it; else a comma.
CsvDialect TakeDialect(absl::string_view* content);

// Removes the next physical line, with its line break, from `content` and returns it.
absl::string_view TakeLine(absl::string_view* content);

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CPP_CSV_DIALECT_H_
