#include "client/cpp/csv.h"

#include <csv.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/normal_text.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "client/cpp/csv_dialect.h"
#include "client/cpp/unnamed_columns.h"

namespace chorale::client {
namespace {

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kParserBlockBytes = 1 << 16;

// "1 cell", "2 cells".
std::string Counted(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace

int64_t CsvTable::Find(absl::string_view name) const {
  auto it = index_of_.find(name);
  if (it == index_of_.end()) it = index_of_.find(NormalText(name));
  return it == index_of_.end() ? -1 : it->second;
}

void CsvTable::IndexNames() {
  for (const std::string& name : names_) {
    index_of_.emplace(name, static_cast<int64_t>(index_of_.size()));
  }
}

void CsvTable::LeaveOut(const std::vector<bool>& columns) {
  CsvTable kept;
  for (size_t column = 0; column < columns.size(); ++column) {
    if (!columns[column]) kept.names_.push_back(names_[column]);
  }
  kept.text_.reserve(text_.size());
  for (int64_t row = 0; row < row_count(); ++row) {
    for (size_t column = 0; column < columns.size(); ++column) {
      if (columns[column]) continue;
      absl::StrAppend(&kept.text_, Cell(row, static_cast<int64_t>(column)));
      kept.ends_.push_back(kept.text_.size());
    }
  }
  names_ = std::move(kept.names_);
  text_ = std::move(kept.text_);
  ends_ = std::move(kept.ends_);
}

absl::string_view CsvTable::Cell(int64_t row, int64_t column) const {
  const size_t index = static_cast<size_t>(row * column_count() + column);
  const size_t begin = index == 0 ? 0 : ends_[index - 1];
  return absl::string_view(text_).substr(begin, ends_[index] - begin);
}

// Builds a table from libcsv's callbacks. Passes libcsv one line at a time to count lines for error
// messages, which libcsv does not. Used by one thread, for one file.
class CsvParser {
 public:
  absl::StatusOr<CsvTable> Parse(absl::string_view content) {
    csv_parser parser;
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0) {
      return absl::InternalError("cannot start the CSV parser");
    }
    const absl::Cleanup free_parser = [&parser] { csv_free(&parser); };
    csv_set_blk_size(&parser, kParserBlockBytes);
    absl::ConsumePrefix(&content, kByteOrderMark);
    TakeDialectOf(&content, &parser);
    while (!content.empty() && status_.ok()) {
      const absl::string_view line = TakeLine(&content);
      ++line_;
      if (!in_record_ && IsBlankRow(line)) {
        CountBlankRow();
        continue;
      }
      // A record starts here, unless a quoted cell continues from the previous line.
      if (!in_record_) record_line_ = line_;
      in_record_ = true;
      if (!IsValidUtf8(line))
        return ErrorAt(line_, "invalid UTF-8: convert the file, for example with iconv");
      if (csv_parse(&parser, line.data(), line.size(), OnCell, OnRecord, this) != line.size()) {
        return ErrorAt(line_, WrongQuote(line));
      }
      // A blank line causes no callback: it neither ends nor starts a record.
      if (cells_.empty() && parser.pstate == 0) in_record_ = false;
    }
    if (status_.ok() && csv_fini(&parser, OnCell, OnRecord, this) != 0) {
      return ErrorAt(record_line_, "a quote in this row is not closed");
    }
    RETURN_IF_ERROR(status_);
    if (table_.names_.empty())
      return absl::InvalidArgumentError("no header line: the file is empty");
    NoteBlankRows();
    RETURN_IF_ERROR(LeaveOutUnnamed());
    table_.IndexNames();
    return std::move(table_);
  }

 private:
  static void OnCell(void* text, size_t size, void* self) {
    static_cast<CsvParser*>(self)->cells_.emplace_back(static_cast<const char*>(text), size);
  }

  static void OnRecord(int, void* self) { static_cast<CsvParser*>(self)->EndRecord(); }

  void EndRecord() {
    in_record_ = false;
    if (!status_.ok()) return;
    if (table_.names_.empty()) {
      EndHeader();
    } else if (static_cast<int64_t>(cells_.size()) != table_.column_count()) {
      status_ = ErrorAt(record_line_,
                        absl::StrCat(Counted(static_cast<int64_t>(cells_.size()), "cell"),
                                     ", but the header has ",
                                     Counted(table_.column_count(), "column"), CommentHint()));
    } else {
      table_.lines_.push_back(record_line_);
      for (const std::string& cell : cells_) {
        table_.text_ += cell;
        table_.ends_.push_back(table_.text_.size());
      }
    }
    cells_.clear();
  }

  void EndHeader() {
    absl::flat_hash_set<absl::string_view> seen;
    for (const std::string& name : cells_) {
      if (!name.empty() && !seen.insert(name).second) {
        status_ = ErrorAt(record_line_, absl::StrCat("the header has column '", name, "' twice"));
        return;
      }
    }
    table_.names_ = cells_;
    header_line_ = record_line_;
  }

  void TakeDialectOf(absl::string_view* content, csv_parser* parser) {
    CsvDialect dialect = TakeDialect(content);
    delimiter_ = dialect.delimiter;
    line_ = dialect.lines;
    if (!dialect.note.empty()) table_.notes_.push_back(std::move(dialect.note));
    csv_set_delim(parser, static_cast<unsigned char>(delimiter_));
    if (delimiter_ == '\t') {
      csv_set_space_func(parser, [](unsigned char c) { return c == ' ' ? 1 : 0; });
    }
  }

  // Whether a line has delimiters and nothing else: spreadsheets write such lines for empty rows.
  bool IsBlankRow(absl::string_view line) const {
    const auto is_nothing = [this](char c) {
      return c == delimiter_ || c == ' ' || c == '\t' || c == '\r' || c == '\n';
    };
    return std::all_of(line.begin(), line.end(), is_nothing) &&
           line.find(delimiter_) != absl::string_view::npos;
  }

  void CountBlankRow() {
    if (blank_rows_++ == 0) first_blank_row_ = line_;
  }

  void NoteBlankRows() {
    if (blank_rows_ == 0) return;
    const bool one = blank_rows_ == 1;
    table_.notes_.push_back(absl::StrCat(Counted(blank_rows_, "line"), one ? " has" : " have",
                                         " only delimiters: dropped (",
                                         one ? "line " : "first: line ", first_blank_row_, ")"));
  }

  absl::Status LeaveOutUnnamed() {
    absl::StatusOr<UnnamedColumns> unnamed = FindUnnamedColumns(table_);
    if (!unnamed.ok()) return ErrorAt(header_line_, unnamed.status().message());
    if (unnamed->notes.empty()) return absl::OkStatus();
    table_.LeaveOut(unnamed->left_out);
    for (std::string& note : unnamed->notes) table_.notes_.push_back(std::move(note));
    if (!table_.names_.empty()) return absl::OkStatus();
    return ErrorAt(header_line_, "no column of the header has a name");
  }

  // CSV has no comments, but a line with a single cell may be intended as a comment.
  std::string CommentHint() const {
    if (absl::StartsWith(table_.names_.front(), "#")) {
      return "; the header begins with '#': if that line is a comment, remove it";
    }
    if (absl::StartsWith(cells_.front(), "#")) return "; if this line is a comment, remove it";
    return "";
  }

  static std::string WrongQuote(absl::string_view line) {
    if (absl::StrContains(line, "\\\"")) {
      return "a quote after a backslash: double the quotes in a cell (Spark: set the option escape "
             "to '\"')";
    }
    return "a quote in the middle of a cell: quote the whole cell, and double the quotes in it";
  }

  static absl::Status ErrorAt(int64_t line, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
  }

  CsvTable table_;
  absl::Status status_;
  std::vector<std::string> cells_;  // of the current record
  int64_t line_ = 0;
  int64_t record_line_ = 0;
  int64_t header_line_ = 0;
  bool in_record_ = false;
  char delimiter_ = ',';
  int64_t blank_rows_ = 0;
  int64_t first_blank_row_ = 0;  // its line
};

absl::StatusOr<CsvTable> ParseCsv(absl::string_view content) { return CsvParser().Parse(content); }

absl::StatusOr<CsvTable> NormalizeTexts(const CsvTable& table) {
  CsvTable normal;
  absl::flat_hash_set<std::string> seen;
  for (const std::string& name : table.names_) {
    normal.names_.push_back(NormalText(name));
    const std::string& last = normal.names_.back();
    if (last.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("column ", normal.names_.size(), " of the header has no name"));
    }
    if (!seen.insert(last).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the header has column '", last, "' twice after text normalisation"));
    }
  }
  normal.IndexNames();
  normal.lines_ = table.lines_;
  normal.notes_ = table.notes_;
  normal.text_.reserve(table.text_.size());
  normal.ends_.reserve(table.ends_.size());
  size_t begin = 0;
  for (const size_t end : table.ends_) {
    normal.text_ += NormalText(absl::string_view(table.text_).substr(begin, end - begin));
    normal.ends_.push_back(normal.text_.size());
    begin = end;
  }
  return normal;
}

absl::StatusOr<CsvTable> ReadCsv(const std::string& path) {
  std::string content;
  if (path == "-") {
    content.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream buffer;
    // Opening a folder succeeds; only reading from it fails.
    if (!file || !(file.peek() == EOF || buffer << file.rdbuf()) || file.bad()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": cannot read this file"));
    }
    content = std::move(buffer).str();
  }
  const absl::Status is_text = CheckIsText(content, path);
  absl::StatusOr<CsvTable> table = is_text.ok() ? ParseCsv(content) : is_text;
  if (table.ok()) table = NormalizeTexts(*table);
  if (!table.ok()) {
    return absl::Status(table.status().code(), absl::StrCat(path == "-" ? "standard input" : path,
                                                            ": ", table.status().message()));
  }
  return table;
}

absl::StatusOr<std::vector<std::string>> ParseCsvLine(absl::string_view line) {
  struct Line {
    std::vector<std::string> cells;
    int records = 0;
  };
  csv_parser parser;
  if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0) {
    return absl::InternalError("cannot start the CSV parser");
  }
  const absl::Cleanup free_parser = [&parser] { csv_free(&parser); };
  const auto on_cell = [](void* text, size_t size, void* to) {
    static_cast<Line*>(to)->cells.emplace_back(static_cast<const char*>(text), size);
  };
  const auto on_record = [](int, void* to) { ++static_cast<Line*>(to)->records; };
  Line parsed;
  const bool good =
      csv_parse(&parser, line.data(), line.size(), on_cell, on_record, &parsed) == line.size() &&
      csv_fini(&parser, on_cell, on_record, &parsed) == 0 && parsed.records <= 1;
  if (!good) return absl::InvalidArgumentError(absl::StrCat("not a line of CSV: ", line));
  return std::move(parsed.cells);
}

std::string CsvLine(absl::Span<const std::string> cells) {
  std::string line;
  const bool all_empty =
      std::all_of(cells.begin(), cells.end(), [](const std::string& cell) { return cell.empty(); });
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ',';
    const std::string& cell = cells[i];
    // ParseCsv skips a line without cells, and could split a single cell at another delimiter.
    const bool first_of_empty = i == 0 && all_empty;
    const bool lone_delimiter =
        cells.size() == 1 && cell.find_first_of(";\t|") != std::string::npos;
    const bool trimmed = !cell.empty() && (cell.front() == ' ' || cell.front() == '\t' ||
                                           cell.back() == ' ' || cell.back() == '\t');
    // At the start of a file, it would be read as a byte order mark and dropped.
    const bool marked = absl::StartsWith(cell, kByteOrderMark);
    if (!first_of_empty && !lone_delimiter && !trimmed && !marked &&
        cell.find_first_of(",\"\r\n") == std::string::npos) {
      line += cell;
      continue;
    }
    const size_t begin = line.size();
    line.resize(begin + csv_write(nullptr, 0, cell.data(), cell.size()));
    csv_write(line.data() + begin, line.size() - begin, cell.data(), cell.size());
  }
  line += '\n';
  return line;
}

std::string QuotedText(absl::string_view text) {
  constexpr size_t kMostBytes = 60;
  if (text.size() <= kMostBytes) return absl::StrCat("'", text, "'");
  absl::string_view cut = text.substr(0, kMostBytes);
  while (!cut.empty() && !IsValidUtf8(cut)) cut.remove_suffix(1);
  return absl::StrCat("'", cut, "...'");
}

std::string FormatDouble(double value) {
  if (std::isnan(value)) return "";
  char buffer[32];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

}  // namespace chorale::client
