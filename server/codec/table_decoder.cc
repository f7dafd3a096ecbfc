#include "server/codec/table_decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "server/codec/meaning_codec.h"

namespace chorale {
namespace {

int64_t RowsOf(const v1::Column& column) {
  return column.has_numeric() ? column.numeric().values_size() : column.categorical().codes_size();
}

absl::Status CheckText(const std::string& text, int64_t max_bytes, const std::string& path,
                       absl::flat_hash_set<absl::string_view>* seen) {
  if (text.empty()) return InvalidField(path, "must not be empty");
  if (static_cast<int64_t>(text.size()) > max_bytes) {
    return InvalidField(path,
                        absl::StrCat("has ", text.size(), " bytes; the limit is ", max_bytes));
  }
  if (!seen->insert(text).second) {
    return InvalidField(path, absl::StrCat(QuoteName(text), " occurs twice"));
  }
  return absl::OkStatus();
}

absl::Status DecodeNumbers(const v1::NumericValues& message, const std::string& path,
                           Column* column) {
  column->type = ColumnType::kNumeric;
  for (int i = 0; i < message.values_size(); ++i) {
    if (std::isinf(message.values(i))) {
      return InvalidField(absl::StrCat(path, ".numeric.values[", i, "]"),
                          "is infinite; numbers must be finite, or NaN for a missing cell");
    }
  }
  const std::optional<Meaning> meaning = DecodeMeaning(message.meaning());
  if (!meaning.has_value()) {
    return InvalidField(absl::StrCat(path, ".numeric.meaning"),
                        absl::StrCat("is ", message.meaning(), ", which is not a known value"));
  }
  column->meaning = *meaning;
  column->numbers.assign(message.values().begin(), message.values().end());
  return absl::OkStatus();
}

absl::Status DecodeCategories(const v1::CategoricalValues& message, const std::string& path,
                              const TableBounds& bounds, Column* column) {
  column->type = ColumnType::kCategorical;
  if (message.categories_size() > bounds.max_categories) {
    return InvalidField(absl::StrCat(path, ".categorical.categories"),
                        absl::StrCat("has ", message.categories_size(),
                                     " categories; the limit is ", bounds.max_categories));
  }
  absl::flat_hash_set<absl::string_view> seen;
  for (int i = 0; i < message.categories_size(); ++i) {
    const std::string at = absl::StrCat(path, ".categorical.categories[", i, "]");
    RETURN_IF_ERROR(CheckText(message.categories(i), bounds.max_category_bytes, at, &seen));
  }
  for (int i = 0; i < message.codes_size(); ++i) {
    const int32_t code = message.codes(i);
    if (code < kMissingCode || code >= message.categories_size()) {
      return InvalidField(absl::StrCat(path, ".categorical.codes[", i, "]"),
                          absl::StrCat("is ", code, "; the column has ", message.categories_size(),
                                       " categories, and ", kMissingCode, " is a missing cell"));
    }
  }
  column->categories.assign(message.categories().begin(), message.categories().end());
  column->codes.assign(message.codes().begin(), message.codes().end());
  return absl::OkStatus();
}

// The same error with the name of the column that it is in.
absl::Status NameColumn(const absl::Status& error, absl::string_view column) {
  const std::string field = ErrorField(error);
  absl::string_view what = error.message();
  absl::ConsumePrefix(&what, absl::StrCat(field, ": "));
  return InvalidField(field, absl::StrCat(what, " (column ", QuoteName(column), ")"));
}

// Checks the numbers of columns and rows, before any cell.
absl::Status CheckShape(const v1::Table& message, absl::string_view path,
                        const TableBounds& bounds) {
  const std::string columns = absl::StrCat(path, ".columns");
  if (message.columns_size() == 0) return InvalidField(columns, "must not be empty");
  if (message.columns_size() > bounds.max_columns) {
    return InvalidField(columns, absl::StrCat("has ", message.columns_size(),
                                              " columns; the limit is ", bounds.max_columns));
  }
  const int64_t rows = RowsOf(message.columns(0));
  for (int i = 0; i < message.columns_size(); ++i) {
    const v1::Column& column = message.columns(i);
    const std::string at = absl::StrCat(columns, "[", i, "]");
    if (column.values_case() == v1::Column::VALUES_NOT_SET) {
      return InvalidField(at, "must have numeric or categorical values");
    }
    if (RowsOf(column) != rows) {
      return InvalidField(
          at, absl::StrCat("has ", RowsOf(column), " rows, but the first column has ", rows));
    }
  }
  if (rows == 0) return InvalidField(path, "must have at least one row");
  if (rows > bounds.max_rows) {
    return InvalidField(path, absl::StrCat("has ", rows, " rows; the limit is ", bounds.max_rows));
  }
  return absl::OkStatus();
}

}  // namespace

TableBounds QueryRowBounds(const Limits& limits) {
  return {limits.max_query_rows, limits.max_features,
          std::max(limits.max_categories, limits.max_query_rows), limits.max_name_bytes,
          std::numeric_limits<int64_t>::max()};
}

TableBounds ChunkBounds(const Limits& limits) {
  return {limits.max_context_rows, limits.max_features + 1, limits.max_categories,
          limits.max_name_bytes, limits.max_name_bytes};
}

absl::StatusOr<Table> DecodeTable(const v1::Table& message, absl::string_view path,
                                  const TableBounds& bounds) {
  RETURN_IF_ERROR(CheckShape(message, path, bounds));
  Table table;
  table.columns.reserve(message.columns_size());
  absl::flat_hash_set<absl::string_view> names;
  for (int i = 0; i < message.columns_size(); ++i) {
    const v1::Column& from = message.columns(i);
    const std::string at = absl::StrCat(path, ".columns[", i, "]");
    RETURN_IF_ERROR(
        CheckText(from.name(), bounds.max_name_bytes, absl::StrCat(at, ".name"), &names));
    Column column;
    column.name = from.name();
    absl::Status status = from.has_numeric()
                              ? DecodeNumbers(from.numeric(), at, &column)
                              : DecodeCategories(from.categorical(), at, bounds, &column);
    if (!status.ok()) return NameColumn(status, from.name());
    table.columns.push_back(std::move(column));
  }
  return table;
}

}  // namespace chorale
