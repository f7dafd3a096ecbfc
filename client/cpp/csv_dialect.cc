#include "client/cpp/csv_dialect.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cpp/shell_word.h"

namespace chorale::client {
namespace {

using absl::string_view;

// Whether the content is UTF-16: starts with its byte order mark, or with an ASCII character.
bool IsUtf16(string_view content) {
  if (content.size() < 2) return false;
  if (absl::StartsWith(content, "\xFF\xFE") || absl::StartsWith(content, "\xFE\xFF")) return true;
  return (content[0] == '\0') != (content[1] == '\0');
}

absl::Status NotCsv(string_view what, string_view command) {
  return absl::InvalidArgumentError(
      absl::StrCat("this is ", what, ", not a CSV file; convert it: ", command));
}

// Counts a character outside of quoted cells.
int64_t CountUnquoted(string_view line, char sign) {
  bool quoted = false;
  int64_t count = 0;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == sign && !quoted) ++count;
  }
  return count;
}

// The first line of the content that is not blank; empty if there is none.
string_view TakeFilledLine(string_view* content) {
  while (!content->empty()) {
    const string_view line = TakeLine(content);
    if (!absl::StripAsciiWhitespace(line).empty()) return line;
  }
  return "";
}

const char* NameOf(char delimiter) {
  switch (delimiter) {
    case ';':
      return "semicolons";
    case '\t':
      return "tabs";
    case '|':
      return "bars";
    default:
      return "commas";
  }
}

// The delimiter that the first line specifies, or '\0'.
char Announced(string_view line) {
  line = absl::StripSuffix(absl::StripSuffix(line, "\n"), "\r");
  if (line.size() != 5 || !absl::StartsWithIgnoreCase(line, "sep=")) return '\0';
  return absl::StrContains(",;\t|", line.substr(4)) ? line[4] : '\0';
}

}  // namespace

absl::Status CheckIsText(string_view content, const std::string& path) {
  const std::string file = path == "-" ? "FILE" : ShellWord(path);
  if (absl::StartsWith(content, "\x1F\x8B")) {
    return NotCsv("a file compressed by gzip", absl::StrCat("gunzip -c ", file, " > table.csv"));
  }
  if (absl::StartsWith(content, "\x28\xB5\x2F\xFD")) {
    return NotCsv("a file compressed by zstd", absl::StrCat("zstd -dc ", file, " > table.csv"));
  }
  if (absl::StartsWith(content, "PAR1")) {
    return NotCsv("a Parquet file",
                  absl::StrCat("python3 -c 'import pandas, sys; "
                               "pandas.read_parquet(sys.argv[1]).to_csv(\"table.csv\", "
                               "index=False)' ",
                               file));
  }
  if (absl::StartsWith(content, "PK\x03\x04")) {
    return NotCsv("an Excel workbook or another archive",
                  "save its sheet as CSV (UTF-8), or unpack it with unzip");
  }
  if (IsUtf16(content)) {
    return NotCsv("text in UTF-16",
                  absl::StrCat("iconv -f UTF-16 -t UTF-8 ", file, " > table.csv"));
  }
  return absl::OkStatus();
}

CsvDialect TakeDialect(string_view* content) {
  string_view rest = *content;
  if (const char said = Announced(TakeLine(&rest)); said != '\0') {
    *content = rest;
    return {.delimiter = said,
            .lines = 1,
            .note = said == ',' ? ""
                                : absl::StrCat("read with ", NameOf(said),
                                               " as delimiters, as the first line specifies")};
  }
  rest = *content;
  const string_view header = TakeFilledLine(&rest);
  const string_view next = TakeFilledLine(&rest);
  if (CountUnquoted(header, ',') > 0) return {};
  for (const char delimiter : {';', '\t', '|'}) {
    // White space at the ends of a line does not separate cells.
    const auto has = [&](string_view line) {
      return CountUnquoted(absl::StripAsciiWhitespace(line), delimiter) > 0;
    };
    if (!has(header) || !(next.empty() || has(next))) continue;
    return {.delimiter = delimiter,
            .note = absl::StrCat("read with ", NameOf(delimiter),
                                 " as delimiters, because the header has no comma")};
  }
  return {};
}

string_view TakeLine(string_view* content) {
  size_t end = content->find_first_of("\r\n");
  if (end == string_view::npos) {
    end = content->size();
  } else if (content->substr(end, 2) == "\r\n") {
    end += 2;
  } else {
    end += 1;
  }
  const string_view line = content->substr(0, end);
  content->remove_prefix(end);
  return line;
}

}  // namespace chorale::client
