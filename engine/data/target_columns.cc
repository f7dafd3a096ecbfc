#include "engine/data/target_columns.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/normal_text.h"
#include "base/status_macros.h"
#include "engine/data/column_validation.h"

namespace chorale {
namespace {

absl::string_view TypeName(ColumnType type) {
  return type == ColumnType::kNumeric ? "numeric" : "categorical";
}

// The feature columns of a context, for an error about a table that lacks some of them.
std::string ExpectedColumns(absl::Span<const FeatureColumn> columns) {
  constexpr size_t kShown = 8;
  std::string text = "the context's feature columns are ";
  for (size_t i = 0; i < std::min(columns.size(), kShown); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", QuoteName(columns[i].name), " (",
                    TypeName(columns[i].type), ")");
  }
  if (columns.size() > kShown) absl::StrAppend(&text, " and ", columns.size() - kShown, " more");
  return text;
}

// The context's columns by name: by the same bytes first, else by what looks equal.
class ColumnIndex {
 public:
  explicit ColumnIndex(absl::Span<const FeatureColumn> columns) : columns_(columns) {
    for (size_t i = 0; i < columns.size(); ++i) by_name_.emplace(columns[i].name, i);
  }

  std::optional<size_t> Find(absl::string_view name) {
    const auto same = by_name_.find(name);
    if (same != by_name_.end()) return same->second;
    if (by_normal_text_.empty()) {
      for (size_t i = 0; i < columns_.size(); ++i) {
        by_normal_text_.try_emplace(NormalText(columns_[i].name), i);
      }
    }
    const auto equal = by_normal_text_.find(NormalText(name));
    if (equal == by_normal_text_.end()) return std::nullopt;
    return equal->second;
  }

 private:
  const absl::Span<const FeatureColumn> columns_;
  absl::flat_hash_map<absl::string_view, size_t> by_name_;
  absl::flat_hash_map<std::string, size_t> by_normal_text_;  // made when it is needed
};

absl::StatusOr<std::vector<const Column*>> MatchNamesAndTypes(
    absl::Span<const FeatureColumn> context, const Table& targets) {
  ColumnIndex index(context);
  std::vector<const Column*> matched(context.size(), nullptr);
  for (const Column& column : targets.columns) {
    const std::optional<size_t> found = index.Find(column.name);
    if (!found.has_value()) {
      return InvalidField(
          ColumnPath(kTargetTable, column.name),
          absl::StrCat("is no feature column of the context; ", ExpectedColumns(context)));
    }
    const ColumnType expected = context[*found].type;
    if (column.type != expected && !context[*found].left_out) {
      return InvalidField(ColumnPath(kTargetTable, column.name),
                          absl::StrCat("is ", TypeName(column.type), " but ", TypeName(expected),
                                       " in the context"));
    }
    if (matched[*found] != nullptr) {
      return InvalidField("targets.columns",
                          absl::StrCat("two columns have the name ", QuoteName(column.name)));
    }
    matched[*found] = &column;
  }
  for (size_t i = 0; i < context.size(); ++i) {
    if (matched[i] == nullptr) {
      return InvalidField("targets.columns",
                          absl::StrCat("the column ", QuoteName(context[i].name), " is missing; ",
                                       ExpectedColumns(context)));
    }
  }
  return matched;
}

}  // namespace

absl::StatusOr<std::vector<const Column*>> MatchTargets(absl::Span<const FeatureColumn> context,
                                                        const Table& targets) {
  absl::StatusOr<std::vector<const Column*>> matched = MatchNamesAndTypes(context, targets);
  RETURN_IF_ERROR(matched.status());
  const int64_t rows = targets.rows();
  if (rows == 0) return InvalidField(kTargetTable, "needs at least one row");
  for (const Column* column : *matched) {
    RETURN_IF_ERROR(ValidateColumnCells(kTargetTable, *column, rows, NoLimits()));
  }
  return matched;
}

}  // namespace chorale
