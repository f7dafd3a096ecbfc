#include "client/cpp/column_types.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/date_text.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text_cells.h"

namespace chorale::client {
namespace {

std::string Where(const CsvTable& csv, int64_t row, int64_t column) {
  return absl::StrCat("line ", csv.Line(row), ", column '", csv.names()[column], "'");
}

absl::Status CheckNamed(const CsvTable& csv, const TypeOptions& options) {
  for (const auto* names : {&options.numeric, &options.categorical}) {
    for (const std::string& name : *names) {
      if (csv.Find(name) < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("no column '", name, "', but its type is set"));
      }
    }
  }
  const absl::flat_hash_set<absl::string_view> categorical(options.categorical.begin(),
                                                           options.categorical.end());
  for (const std::string& name : options.numeric) {
    if (categorical.contains(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the type of column '", name, "' is set twice"));
    }
  }
  return absl::OkStatus();
}

TextType NotationOf(Meaning meaning) {
  switch (meaning) {
    case Meaning::kBoolean:
      return TextType::kBooleans;
    case Meaning::kDate:
      return TextType::kDates;
    case Meaning::kNumber:
    case Meaning::kDuration:
      break;
  }
  return TextType::kNumbers;
}

const char* WhatItIsNot(Meaning meaning) {
  switch (meaning) {
    case Meaning::kBoolean:
      return " is neither true nor false, but the column contains booleans";
    case Meaning::kDate:
      return " is neither a date like 2024-01-31 nor a number of days since 1970-01-01, but the "
             "column contains dates";
    case Meaning::kDuration:
      return " is not a number of days, but the column contains durations";
    case Meaning::kNumber:
      break;
  }
  return " is not a finite number, but the column is numeric";
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
  if (column.meaning == Meaning::kDate) {
    return absl::StrCat(FormatDate(low), " to ", FormatDate(high));
  }
  return absl::StrFormat("%.6g to %.6g", low, high);
}

}  // namespace

absl::StatusOr<std::vector<double>> ReadNumbers(const CsvTable& csv, int64_t column,
                                                Meaning meaning, const MissingMarks& missing) {
  std::vector<double> numbers(csv.row_count(), std::numeric_limits<double>::quiet_NaN());
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (missing.Matches(cell, ColumnKind::kNumeric)) continue;
    const std::optional<double> number = NumberOfText(cell, NotationOf(meaning));
    if (!number.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Where(csv, row, column), ": ", QuotedText(cell), WhatItIsNot(meaning),
                       LooksLikeNumber(cell) ? "; write numbers like -1234.5" : ""));
    }
    numbers[row] = *number;
  }
  return numbers;
}

absl::Status AddCategories(const CsvTable& csv, int64_t column, const MissingMarks& missing,
                           const std::string& name, DataFrame* frame) {
  std::vector<std::optional<std::string>> values(csv.row_count());
  for (int64_t row = 0; row < csv.row_count(); ++row) {
    const absl::string_view cell = csv.Cell(row, column);
    if (!missing.Matches(cell, ColumnKind::kCategorical)) values[row] = std::string(cell);
  }
  return frame->AddCategorical(name, values);
}

absl::StatusOr<TypedTable> InferTypes(const CsvTable& csv, const TypeOptions& options) {
  RETURN_IF_ERROR(CheckNamed(csv, options));
  const absl::flat_hash_set<absl::string_view> numeric(options.numeric.begin(),
                                                       options.numeric.end());
  const absl::flat_hash_set<absl::string_view> categorical(options.categorical.begin(),
                                                           options.categorical.end());
  TypedTable table;
  for (int64_t column = 0; column < csv.column_count(); ++column) {
    const std::string& name = csv.names()[column];
    const CellCounts cells = CountCells(csv, column, options.missing);
    ColumnType type = TypeOfCells(cells);
    TypeChoice choice = TypeChoice::kInferred;
    if (categorical.contains(name)) {
      type = {.kind = ColumnKind::kCategorical};
      choice = TypeChoice::kGiven;
    } else if (numeric.contains(name)) {
      type = {.kind = ColumnKind::kNumeric};
      choice = TypeChoice::kGiven;
    }
    if (type.kind == ColumnKind::kCategorical) {
      RETURN_IF_ERROR(AddCategories(csv, column, options.missing, name, &table.frame));
    } else {
      ASSIGN_OR_RETURN(std::vector<double> numbers,
                       ReadNumbers(csv, column, type.meaning, options.missing));
      RETURN_IF_ERROR(table.frame.AddNumeric(name, std::move(numbers), type.meaning));
    }
    for (ColumnNote& note : NotesOnColumn(csv, column, cells, type, choice)) {
      table.notes.push_back(std::move(note));
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
        &text, "%-*s  %-11s  %7d  %s\n", padding, column.name,
        TypeName({column.kind, column.meaning}), column.missing_count(),
        numeric ? Range(column) : absl::StrCat(column.categories.size(), " categories"));
  }
  return text;
}

}  // namespace chorale::client
