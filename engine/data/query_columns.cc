#include "engine/data/query_columns.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/normal_text.h"
#include "base/status_macros.h"
#include "engine/data/column_conversion.h"
#include "engine/data/column_validation.h"

namespace chorale {
namespace {

absl::string_view TypeName(ColumnType type) {
  return type == ColumnType::kNumeric ? "numeric" : "categorical";
}

// Lists the feature columns of a context for an error about a table without some of them.
std::string ExpectedColumns(const std::vector<FeatureColumn>& columns) {
  constexpr size_t kShown = 8;
  std::string text = "the context's feature columns are ";
  for (size_t i = 0; i < std::min(columns.size(), kShown); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", QuoteName(columns[i].name), " (",
                    TypeName(columns[i].type), ")");
  }
  if (columns.size() > kShown) absl::StrAppend(&text, " and ", columns.size() - kShown, " more");
  return text;
}

// Returns the columns of `query_rows` in the context's order.
absl::StatusOr<std::vector<const Column*>> MatchNames(const FeatureColumns& index,
                                                      const Table& query_rows, ExtraColumns extra) {
  const std::vector<FeatureColumn>& context = index.columns();
  std::vector<const Column*> matched(context.size(), nullptr);
  for (const Column& column : query_rows.columns) {
    const std::optional<size_t> found = index.Find(column.name);
    if (!found.has_value()) {
      if (extra == ExtraColumns::kIgnore) continue;
      return InvalidField(
          ColumnPath(kQueryTable, column.name),
          absl::StrCat("is not a feature column of the context; ", ExpectedColumns(context)));
    }
    if (matched[*found] != nullptr) {
      return InvalidField("rows.columns",
                          absl::StrCat("two columns have the name ", QuoteName(column.name)));
    }
    matched[*found] = &column;
  }
  for (size_t i = 0; i < context.size(); ++i) {
    if (matched[i] == nullptr) {
      return InvalidField("rows.columns", absl::StrCat("the column ", QuoteName(context[i].name),
                                                       " is missing; ", ExpectedColumns(context)));
    }
  }
  return matched;
}

absl::Status AddColumn(const Column& column, const FeatureColumn& feature, QueryColumns* columns) {
  if (column.type == feature.type) {
    columns->Add(&column);
    return absl::OkStatus();
  }
  if (column.type == ColumnType::kNumeric && !feature.has_numbers && !feature.left_out) {
    return InvalidField(ColumnPath(kQueryTable, column.name),
                        "is numeric, but categorical in the context, whose categories are not "
                        "numbers");
  }
  absl::StatusOr<Column> converted =
      ConvertColumn(kQueryTable, column, feature.type, feature.meaning);
  if (converted.ok()) {
    columns->AddConverted(*std::move(converted));
    return absl::OkStatus();
  }
  if (!feature.left_out) return converted.status();
  columns->Add(&column);  // no cell of a dropped column has an effect
  return absl::OkStatus();
}

}  // namespace

FeatureColumns::FeatureColumns(std::vector<FeatureColumn> columns) : columns_(std::move(columns)) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const std::string& name = columns_[i].name;
    by_name_.emplace(name, i);
    std::string form = NormalText(name);
    if (form != name) by_normal_text_.try_emplace(std::move(form), i);
  }
}

std::optional<size_t> FeatureColumns::Find(const std::string& name) const {
  if (const auto same = by_name_.find(name); same != by_name_.end()) return same->second;
  const std::string form = NormalText(name);
  std::optional<size_t> first;
  for (const auto* const map : {&by_name_, &by_normal_text_}) {
    const auto found = map->find(form);
    if (found != map->end()) first = std::min(first.value_or(found->second), found->second);
  }
  return first;
}

absl::StatusOr<QueryColumns> MatchQueryRows(const FeatureColumns& context, const Table& query_rows,
                                            ExtraColumns extra) {
  ASSIGN_OR_RETURN(std::vector<const Column*> matched, MatchNames(context, query_rows, extra));
  const int64_t rows = query_rows.rows();
  if (rows == 0) return InvalidField(kQueryTable, "needs at least one row");
  QueryColumns columns;
  for (size_t i = 0; i < matched.size(); ++i) {
    RETURN_IF_ERROR(ValidateColumnCells(kQueryTable, *matched[i], rows, NoLimits()));
    RETURN_IF_ERROR(AddColumn(*matched[i], context.columns()[i], &columns));
  }
  return columns;
}

}  // namespace chorale
