#include "server/codec/table_decoder.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "server/codec/column_decoder.h"

namespace chorale {
namespace {

// The same error with the name of the column that it is in.
absl::Status NameColumn(const absl::Status& error, absl::string_view column) {
  const std::string field = ErrorField(error);
  absl::string_view what = error.message();
  absl::ConsumePrefix(&what, absl::StrCat(field, ": "));
  const std::string text = absl::StrCat(what, " (column ", QuoteName(column), ")");
  return ErrorReasonOf(error) == NameOf(ErrorReason::kLimitExceeded) ? LimitExceeded(field, text)
                                                                     : InvalidField(field, text);
}

// Checks the numbers of columns and rows, before any cell.
absl::Status CheckShape(const v1::Table& message, absl::string_view path,
                        const TableBounds& bounds) {
  const std::string columns = absl::StrCat(path, ".columns");
  if (message.columns_size() == 0) return InvalidField(columns, "must not be empty");
  if (message.columns_size() > bounds.max_columns) {
    return LimitExceeded(columns, absl::StrCat("has ", message.columns_size(),
                                               " columns; the limit is ", bounds.max_columns));
  }
  const int64_t rows = CellsOf(message.columns(0));
  for (int i = 0; i < message.columns_size(); ++i) {
    const v1::Column& column = message.columns(i);
    const std::string at = absl::StrCat(columns, "[", i, "]");
    if (column.values_case() == v1::Column::VALUES_NOT_SET) {
      return InvalidField(at, "must have values, such as numeric or strings");
    }
    if (CellsOf(column) != rows) {
      return InvalidField(
          at, absl::StrCat("has ", CellsOf(column), " rows, but the first column has ", rows));
    }
  }
  if (rows == 0) return InvalidField(path, "must have at least one row");
  if (rows > bounds.max_rows) {
    return LimitExceeded(path, absl::StrCat("has ", rows, " rows; the limit is ", bounds.max_rows));
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
        CheckDistinctText(from.name(), bounds.max_name_bytes, absl::StrCat(at, ".name"), &names));
    Column column;
    column.name = from.name();
    const absl::Status status =
        DecodeValues(from, at, {bounds.max_categories, bounds.max_text_bytes}, &column);
    if (!status.ok()) return NameColumn(status, from.name());
    table.columns.push_back(std::move(column));
  }
  return table;
}

}  // namespace chorale
