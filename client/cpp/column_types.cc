#include "client/cpp/column_types.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/cpp/number_text.h"

namespace chorale::client {
namespace {

std::string Where(const CsvTable& csv, int64_t row, int64_t column) {
  return absl::StrCat("line ", csv.Line(row), ", column '", csv.names()[column], "'");
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::Status CheckNamed(const CsvTable& csv, const TypeOptions& options) {
  for (const auto* names : {&options.numeric, &options.categorical}) {
    for (const std::string& name : *names) {
      if (csv.Find(name) < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("no column '", name, "' in the file, but its type was given"));
      }
    }
  }
  for (const std::string& name : options.numeric) {
    if (Contains(options.categorical, name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the type of column '", name, "' was given twice"));
    }
  }
  return absl::OkStatus();
}

std::string Range(const DataColumn& column) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double x : column.numbers) {
    if (std::isnan(x)) continue;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  if (low > high) return "no values";
  return absl::StrFormat("%.6g to %.6g", low, high);
}

}  // namespace

absl::Status AddColumnAs(const CsvTable& csv, int64_t column, ColumnKind kind,
                         const MissingMarks& missing, const std::string& name, DataFrame* frame) {
  if (kind == ColumnKind::kNumeric) {
    std::vector<double> numbers(csv.row_count(), std::numeric_limits<double>::quiet_NaN());
    for (int64_t row = 0; row < csv.row_count(); ++row) {
      const absl::string_view cell = csv.Cell(row, column);
      if (missing.Matches(cell, kind)) continue;
      const std::optional<double> number = ParseNumber(cell);
      if (!number.has_value()) {
        return absl::InvalidArgumentError(
            absl::StrCat(Where(csv, row, column), ": ", QuotedText(cell),
                         " is not a finite number, and the column is numeric",
                         LooksLikeNumber(cell) ? "; numbers are written like -1234.5" : ""));
      }
      numbers[row] = *number;
    }
    return frame->AddNumeric(name, std::move(numbers));
  }
  std::vector<std::optional<std::string>> values(csv.row_count());
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (!missing.Matches(cell, kind)) values[row] = std::string(cell);
  }
  return frame->AddCategorical(name, values);
}

absl::StatusOr<TypedTable> InferTypes(const CsvTable& csv, const TypeOptions& options) {
  RETURN_IF_ERROR(CheckNamed(csv, options));
  TypedTable table;
  for (int64_t column = 0; column < csv.column_count(); ++column) {
    const std::string& name = csv.names()[column];
    const CellCounts cells = CountCells(csv, column, options.missing);
    ColumnKind kind = cells.ReadsAsNumbers() ? ColumnKind::kNumeric : ColumnKind::kCategorical;
    TypeChoice choice = TypeChoice::kInferred;
    if (Contains(options.categorical, name)) {
      kind = ColumnKind::kCategorical;
      choice = TypeChoice::kGiven;
    } else if (Contains(options.numeric, name)) {
      kind = ColumnKind::kNumeric;
      choice = TypeChoice::kGiven;
    }
    absl::Status status = AddColumnAs(csv, column, kind, options.missing, name, &table.frame);
    RETURN_IF_ERROR(status);
    for (std::string& note : NotesOnColumn(csv, column, cells, kind, choice)) {
      table.notes.push_back({.column = name, .text = std::move(note)});
    }
  }
  return table;
}

std::string DescribeColumns(const DataFrame& frame) {
  size_t width = 6;
  for (const DataColumn& column : frame.columns()) width = std::max(width, column.name.size());
  const int padding = static_cast<int>(width);
  std::string text =
      absl::StrFormat("%-*s  %-11s  %7s  %s\n", padding, "column", "type", "missing", "values");
  for (const DataColumn& column : frame.columns()) {
    const bool numeric = column.kind == ColumnKind::kNumeric;
    absl::StrAppendFormat(
        &text, "%-*s  %-11s  %7d  %s\n", padding, column.name, numeric ? "numeric" : "categorical",
        column.missing_count(),
        numeric ? Range(column) : absl::StrCat(column.categories.size(), " categories"));
  }
  return text;
}

}  // namespace chorale::client
