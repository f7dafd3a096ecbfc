// Any text given as a CSV file is either refused or gives a table that, written again, is the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/csv.h"
#include "client/cpp/csv_columns.h"

namespace {

void Check(bool condition) {
  if (!condition) std::abort();
}

using chorale::client::CsvTable;

std::string Written(const CsvTable& table) {
  std::string text = chorale::client::CsvLine(table.names());
  std::vector<std::string> cells(static_cast<size_t>(table.column_count()));
  for (int64_t row = 0; row < table.row_count(); ++row) {
    for (int64_t column = 0; column < table.column_count(); ++column) {
      cells[static_cast<size_t>(column)] = std::string(table.Cell(row, column));
    }
    text += chorale::client::CsvLine(cells);
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::StatusOr<CsvTable> table =
      chorale::client::ParseCsv({reinterpret_cast<const char*>(data), size});
  if (!table.ok()) {
    Check(absl::IsInvalidArgument(table.status()));
    return 0;
  }
  for (const std::string& name : table->names()) {
    Check(!name.empty() && table->names()[static_cast<size_t>(table->Find(name))] == name);
  }
  const absl::StatusOr<CsvTable> normal = chorale::client::NormalizeTexts(*table);
  if (normal.ok()) {
    const absl::StatusOr<CsvTable> twice = chorale::client::NormalizeTexts(*normal);
    Check(twice.ok() && Written(*twice) == Written(*normal));
    const auto columns = chorale::client::ReadColumns(*normal, {});
    Check(columns.ok() && columns->row_count() == normal->row_count());
  } else {
    Check(absl::IsInvalidArgument(normal.status()));
  }
  const std::string written = Written(*table);
  const absl::StatusOr<CsvTable> again = chorale::client::ParseCsv(written);
  Check(again.ok());
  Check(again->row_count() == table->row_count() && Written(*again) == written);
  return 0;
}
