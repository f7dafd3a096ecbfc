#include "client/cpp/column_types.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace chorale::client {
namespace {

using MissingTokens = absl::flat_hash_set<std::string>;

bool IsMissing(absl::string_view cell, const MissingTokens& missing) {
  return cell.empty() || missing.contains(cell);
}

std::string Where(const CsvTable& csv, int64_t row, int64_t column) {
  return absl::StrCat("line ", csv.Line(row), ", column '", csv.names()[column], "'");
}

// How many cells of a column are numbers.
struct NumberCount {
  int64_t numbers = 0;
  int64_t others = 0;
  int64_t first_other_row = -1;
};

NumberCount CountNumbers(const CsvTable& csv, int64_t column, const MissingTokens& missing) {
  NumberCount count;
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (IsMissing(cell, missing)) continue;
    if (ParseNumber(cell).has_value()) {
      ++count.numbers;
    } else if (++count.others == 1) {
      count.first_other_row = row;
    }
  }
  return count;
}

absl::Status CheckNamed(const CsvTable& csv, const TypeOptions& options) {
  absl::flat_hash_set<absl::string_view> seen;
  for (const auto* names : {&options.numeric, &options.categorical}) {
    for (const std::string& name : *names) {
      if (csv.Find(name) < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("no column '", name, "' in the file, but its type was given"));
      }
      if (!seen.insert(name).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("the type of column '", name, "' was given twice"));
      }
    }
  }
  return absl::OkStatus();
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
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

std::optional<double> ParseNumber(absl::string_view text) {
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '-') return std::nullopt;
  }
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ptr != end || text.empty()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) {
    // Too large or too small. Too small is still a number, and strtod rounds it.
    value = std::strtod(std::string(text).c_str(), nullptr);
  } else if (result.ec != std::errc()) {
    return std::nullopt;
  }
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

absl::Status AddColumnAs(const CsvTable& csv, int64_t column, ColumnKind kind,
                         const MissingTokens& missing, DataFrame* frame) {
  const std::string& name = csv.names()[column];
  if (kind == ColumnKind::kNumeric) {
    std::vector<double> numbers(csv.row_count(), std::numeric_limits<double>::quiet_NaN());
    for (int64_t row = 0; row < csv.row_count(); ++row) {
      const absl::string_view cell = csv.Cell(row, column);
      if (IsMissing(cell, missing)) continue;
      const std::optional<double> number = ParseNumber(cell);
      if (!number.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat(Where(csv, row, column), ": '", cell,
                                                       "' is not a finite number, and the column "
                                                       "is numeric"));
      }
      numbers[row] = *number;
    }
    return frame->AddNumeric(name, std::move(numbers));
  }
  std::vector<std::optional<std::string>> values(csv.row_count());
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (!IsMissing(cell, missing)) values[row] = std::string(cell);
  }
  return frame->AddCategorical(name, values);
}

absl::StatusOr<TypedTable> InferTypes(const CsvTable& csv, const TypeOptions& options) {
  RETURN_IF_ERROR(CheckNamed(csv, options));
  TypedTable table;
  for (int64_t column = 0; column < csv.column_count(); ++column) {
    const std::string& name = csv.names()[column];
    ColumnKind kind = ColumnKind::kNumeric;
    if (Contains(options.categorical, name)) {
      kind = ColumnKind::kCategorical;
    } else if (!Contains(options.numeric, name)) {
      const NumberCount count = CountNumbers(csv, column, options.missing);
      if (count.others > 0) kind = ColumnKind::kCategorical;
      // A few words in a column of numbers: probably typing errors or unknown missing tokens.
      if (count.others > 0 && count.numbers >= 9 * count.others) {
        table.notes.push_back(absl::StrCat("column '", name, "' is read as categories because of ",
                                           count.others, " of its ", count.others + count.numbers,
                                           " cells, first '",
                                           csv.Cell(count.first_other_row, column), "' on line ",
                                           csv.Line(count.first_other_row)));
      }
    }
    absl::Status status = AddColumnAs(csv, column, kind, options.missing, &table.frame);
    RETURN_IF_ERROR(status);
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
