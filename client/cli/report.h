// Prints rows of results as CSV, as JSON, or as a table for people.
#ifndef CHORALE_CLIENT_CLI_REPORT_H_
#define CHORALE_CLIENT_CLI_REPORT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <variant>
#include <vector>

namespace chorale::client {

enum class Format { kCsv, kJson, kTable };

// A number of bytes: "1.5 MiB" in a table, the number in CSV and JSON.
struct Bytes {
  int64_t count = 0;
};

// monostate stands for no value: an empty cell, "-" in a table, null in JSON.
using Cell = std::variant<std::monostate, std::string, int64_t, double, Bytes>;

// Writes CSV and JSON rows immediately, and a table in Finish, when the widths are known. Numbers
// in CSV and JSON parse to the same doubles; a table shows six digits. JSON is an array of objects.
// Used by one thread.
class ReportWriter {
 public:
  // `out` must outlive the writer. CSV can lack the header, to continue earlier output.
  ReportWriter(std::vector<std::string> columns, Format format, std::ostream* out,
               bool has_header = true);

  // Requires one cell per column.
  void Add(const std::vector<Cell>& cells);
  // Call once, after the last row.
  void Finish();

 private:
  void AddJson(const std::vector<Cell>& cells);
  void WriteTable();

  const std::vector<std::string> columns_;
  const Format format_;
  std::ostream* const out_;
  bool first_ = true;
  std::vector<std::vector<std::string>> table_;  // rows of a table, the header first
  std::vector<bool> right_aligned_;              // [columns]: numbers
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_REPORT_H_
