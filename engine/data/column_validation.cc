#include "engine/data/column_validation.h"

#include <cmath>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace chorale {
namespace {

absl::Status WrongLength(absl::string_view field, size_t cells, int64_t rows) {
  return InvalidField(field,
                      absl::StrCat("has ", cells, " cells, but the table has ", rows, " rows"));
}

absl::Status ValidateNumbers(absl::string_view table, const Column& column, int64_t rows) {
  if (!column.categories.empty() || !column.codes.empty()) {
    return InvalidField(ColumnPath(table, column.name), "is numeric but also has categories");
  }
  if (static_cast<int64_t>(column.numbers.size()) != rows) {
    return WrongLength(absl::StrCat(ColumnPath(table, column.name), ".numeric.values"),
                       column.numbers.size(), rows);
  }
  for (int64_t row = 0; row < rows; ++row) {
    if (std::isinf(column.numbers[row])) {
      return InvalidField(NumericCellPath(table, column.name, row),
                          "is infinite; a cell must be finite, or NaN if it is missing");
    }
  }
  const size_t wrong = FirstBeyondMeaning(column.meaning, column.numbers);
  if (wrong == column.numbers.size()) return absl::OkStatus();
  return BeyondMeaning(NumericCellPath(table, column.name, static_cast<int64_t>(wrong)),
                       column.numbers[wrong]);
}

absl::Status ValidateCategories(absl::string_view field, const std::vector<std::string>& categories,
                                const Limits& limits) {
  if (static_cast<int64_t>(categories.size()) > limits.max_categories) {
    return LimitExceeded(field, absl::StrCat("has ", categories.size(),
                                             " categories; the limit is ", limits.max_categories));
  }
  absl::flat_hash_set<absl::string_view> seen;
  seen.reserve(categories.size());
  for (size_t i = 0; i < categories.size(); ++i) {
    const std::string& category = categories[i];
    const std::string element = absl::StrCat(field, "[", i, "]");
    if (category.empty()) {
      return InvalidField(element, "is empty; a missing cell has code -1 and no category");
    }
    if (static_cast<int64_t>(category.size()) > limits.max_name_bytes) {
      return LimitExceeded(element, absl::StrCat("has ", category.size(), " bytes; the limit is ",
                                                 limits.max_name_bytes));
    }
    if (!IsValidUtf8(category)) return InvalidField(element, "is not valid UTF-8");
    if (!seen.insert(category).second) {
      return InvalidField(element, absl::StrCat("repeats the category ", QuoteName(category)));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateCodes(absl::string_view field, const Column& column) {
  const int64_t categories = static_cast<int64_t>(column.categories.size());
  for (size_t row = 0; row < column.codes.size(); ++row) {
    const int64_t code = column.codes[row];
    if (code != kMissingCode && (code < 0 || code >= categories)) {
      return InvalidField(
          absl::StrCat(field, "[", row, "]"),
          absl::StrCat("is ", code, "; a code must be -1 (missing) or an index into ", categories,
                       " categories"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Limits NoLimits() {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Limits limits;
  limits.max_context_rows = kMost;
  limits.max_features = kMost;
  limits.max_categories = kMost;
  limits.max_name_bytes = kMost;
  limits.max_dataset_bytes = kMost;
  limits.max_paths = kMost;
  limits.max_query_rows = kMost;
  limits.max_orders = kMost;
  limits.max_values = kMost;
  limits.max_quantiles = kMost;
  limits.max_response_bytes = kMost;
  return limits;
}

std::string ColumnPath(absl::string_view table, absl::string_view column) {
  return absl::StrCat(table, ".columns[", QuoteName(column), "]");
}

std::string NumericCellPath(absl::string_view table, absl::string_view column, int64_t row) {
  return absl::StrCat(ColumnPath(table, column), ".numeric.values[", row, "]");
}

absl::Status ValidateColumnName(absl::string_view field, absl::string_view name,
                                const Limits& limits) {
  if (name.empty()) return InvalidField(field, "a column's name is empty");
  if (static_cast<int64_t>(name.size()) > limits.max_name_bytes) {
    return LimitExceeded(field,
                         absl::StrCat("the column name ", QuoteName(name), " has ", name.size(),
                                      " bytes; the limit is ", limits.max_name_bytes));
  }
  if (!IsValidUtf8(name)) {
    return InvalidField(field,
                        absl::StrCat("the column name ", QuoteName(name), " is not valid UTF-8"));
  }
  if (HasControlCharacter(name)) {
    return InvalidField(
        field, absl::StrCat("the column name ", QuoteName(name), " contains a control character"));
  }
  return absl::OkStatus();
}

absl::Status ValidateColumnNames(absl::string_view table, const Table& columns,
                                 const Limits& limits) {
  const std::string field = absl::StrCat(table, ".columns");
  absl::flat_hash_set<absl::string_view> seen;
  seen.reserve(columns.columns.size());
  for (const Column& column : columns.columns) {
    RETURN_IF_ERROR(ValidateColumnName(field, column.name, limits));
    if (!seen.insert(column.name).second) {
      return InvalidField(field,
                          absl::StrCat("two columns have the name ", QuoteName(column.name)));
    }
  }
  return absl::OkStatus();
}

size_t FirstBeyondMeaning(Meaning meaning, absl::Span<const double> numbers) {
  if (meaning != Meaning::kBoolean) return numbers.size();
  const auto wrong = absl::c_find_if(
      numbers, [](double number) { return !std::isnan(number) && number != 0 && number != 1; });
  return static_cast<size_t>(wrong - numbers.begin());
}

absl::Status BeyondMeaning(absl::string_view field, double number) {
  return InvalidField(
      field, absl::StrCat("is ", number, "; a boolean must be 0 or 1, or NaN if it is missing"));
}

absl::Status ScaledTooLarge(absl::string_view table, absl::string_view column, int64_t row,
                            double number) {
  return InvalidField(
      NumericCellPath(table, column, row),
      absl::StrCat("is ", number, "; its scaled value exceeds the range of the model's float32 (",
                   std::numeric_limits<float>::max(), ")"));
}

absl::Status ValidateColumnCells(absl::string_view table, const Column& column, int64_t rows,
                                 const Limits& limits) {
  if (column.type == ColumnType::kNumeric) return ValidateNumbers(table, column, rows);

  const std::string field = absl::StrCat(ColumnPath(table, column.name), ".categorical");
  if (!column.numbers.empty() || column.meaning != Meaning::kNumber) {
    return InvalidField(ColumnPath(table, column.name), "is categorical but also has numbers");
  }
  if (static_cast<int64_t>(column.codes.size()) != rows) {
    return WrongLength(absl::StrCat(field, ".codes"), column.codes.size(), rows);
  }
  if (absl::Status s =
          ValidateCategories(absl::StrCat(field, ".categories"), column.categories, limits);
      !s.ok()) {
    return s;
  }
  return ValidateCodes(absl::StrCat(field, ".codes"), column);
}

}  // namespace chorale
