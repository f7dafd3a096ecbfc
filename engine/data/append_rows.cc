#include "engine/data/append_rows.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/normal_text.h"
#include "base/status_macros.h"
#include "engine/data/category_dictionary.h"
#include "engine/data/category_lookup.h"
#include "engine/data/column_meaning.h"
#include "engine/data/column_validation.h"
#include "engine/data/dataset_codec.h"
#include "engine/data/query_columns.h"
#include "engine/data/text_columns.h"

namespace chorale {
namespace {

// The first rows of a column, with all of its categories.
Column FirstRows(const Column& column, int64_t rows) {
  Column first = {.name = column.name,
                  .type = column.type,
                  .numbers = {},
                  .categories = column.categories,
                  .codes = {},
                  .meaning = column.meaning};
  if (column.type == ColumnType::kNumeric) {
    first.numbers.assign(column.numbers.begin(), column.numbers.begin() + rows);
  } else {
    first.codes.assign(column.codes.begin(), column.codes.begin() + rows);
  }
  return first;
}

template <typename Cell>
void KeepRows(const std::vector<bool>& kept, std::vector<Cell>* cells) {
  if (cells->empty()) return;
  size_t count = 0;
  for (size_t row = 0; row < kept.size(); ++row) {
    if (kept[row]) (*cells)[count++] = (*cells)[row];
  }
  cells->resize(count);
}

// The column with the name of the target, by the rules of FeatureColumns; -1 if there is none.
int64_t FindTarget(const Table& rows, const std::string& target) {
  if (const int64_t same = rows.Find(target); same >= 0) return same;
  const std::string form = NormalText(target);
  for (size_t i = 0; i < rows.columns.size(); ++i) {
    if (NormalText(rows.columns[i].name) == form) return static_cast<int64_t>(i);
  }
  return -1;
}

absl::Status CheckAppendedTarget(const Column& column, MissingTargets missing_targets) {
  for (size_t row = 0; row < column.numbers.size(); ++row) {
    const double y = column.numbers[row];
    if (std::isfinite(y) || (std::isnan(y) && missing_targets == MissingTargets::kDrop)) continue;
    return InvalidField(
        NumericCellPath(kQueryTable, column.name, static_cast<int64_t>(row)),
        "is missing or infinite; the target column must have a finite number in each row, unless "
        "rows with missing targets are dropped");
  }
  const size_t wrong = FirstBeyondMeaning(column.meaning, column.numbers);
  if (wrong == column.numbers.size()) return absl::OkStatus();
  return BeyondMeaning(NumericCellPath(kQueryTable, column.name, static_cast<int64_t>(wrong)),
                       column.numbers[wrong]);
}

// Removes the target column from the rows, and returns it as numbers.
absl::StatusOr<Column> TakeTarget(const std::string& target, MissingTargets missing_targets,
                                  Table* rows) {
  const int64_t place = FindTarget(*rows, target);
  if (place < 0) {
    return InvalidField("rows.columns",
                        absl::StrCat("the target column ", QuoteName(target), " is missing"));
  }
  const int64_t count = rows->rows();
  Column column = std::move(rows->columns[place]);
  rows->columns.erase(rows->columns.begin() + place);
  RETURN_IF_ERROR(ValidateColumnCells(kQueryTable, column, count, NoLimits()));
  if (column.type == ColumnType::kText) InferType(&column);
  if (column.type != ColumnType::kNumeric) {
    const std::string shown =
        column.categories.empty()
            ? ""
            : absl::StrCat(", but contains texts such as ", QuoteName(column.categories.front()));
    return InvalidField(ColumnPath(kQueryTable, column.name),
                        absl::StrCat("the target column must be numeric", shown));
  }
  RETURN_IF_ERROR(CheckAppendedTarget(column, missing_targets));
  return column;
}

// The categories of a dataset's column, to find those of appended rows.
struct KnownCategories {
  CategoryLookup base;  // of the rows before the first append, which the transform has
  CategoryLookup all;

  KnownCategories(const Column& column, int64_t base_rows) {
    if (column.type == ColumnType::kNumeric) return;
    all = CategoryLookup(CanonicalDictionary(column).categories);
    base = base_rows == column.rows()
               ? all
               : CategoryLookup(CanonicalDictionary(FirstRows(column, base_rows)).categories);
  }

  std::string Find(const std::string& category) const {
    for (const CategoryLookup* const lookup : {&base, &all}) {
      const int64_t place = lookup->Find(category);
      if (place != CategoryLookup::kUnknown) return lookup->categories()[place];
    }
    return category;
  }
};

// Replaces categories by those of the dataset that they match.
void UseKnownCategories(const KnownCategories& known, Column* column) {
  std::vector<std::string> categories;
  std::vector<int32_t> renumber;
  absl::flat_hash_map<std::string, int32_t> code_of;
  for (const std::string& category : column->categories) {
    std::string found = known.Find(category);
    const auto next = static_cast<int32_t>(categories.size());
    const auto [it, is_new] = code_of.try_emplace(found, next);
    if (is_new) categories.push_back(std::move(found));
    renumber.push_back(it->second);
  }
  for (int32_t& code : column->codes) {
    if (code != kMissingCode) code = renumber[code];
  }
  column->categories = std::move(categories);
}

// Numbers without a meaning fit every column, and booleans are plain numbers as well.
bool FitsMeaning(Meaning given, Meaning expected) {
  return given == expected || given == Meaning::kNumber ||
         (given == Meaning::kBoolean && expected == Meaning::kNumber);
}

// Gives a column the name and the meaning of the dataset's column.
absl::Status Adopt(const Column& expected, const Limits& limits, Column* column) {
  if (!FitsMeaning(column->meaning, expected.meaning)) {
    return InvalidField(
        absl::StrCat(ColumnPath(kQueryTable, column->name), ".numeric.meaning"),
        absl::StrCat("is ", MeaningName(column->meaning), ", but the context's column has ",
                     MeaningName(expected.meaning)));
  }
  column->meaning = expected.meaning;
  RETURN_IF_ERROR(ValidateColumnCells(kQueryTable, *column, column->rows(), limits));
  column->name = expected.name;
  return absl::OkStatus();
}

// The error about a column that is neither a feature nor the target column, which was taken.
absl::Status ExtraColumn(const Column& column, const std::string& target) {
  if (NormalText(column.name) == NormalText(target)) {
    return InvalidField("rows.columns",
                        absl::StrCat("two columns have the name ", QuoteName(target)));
  }
  return InvalidField(ColumnPath(kQueryTable, column.name),
                      "is neither a feature nor the target of the context: omit the column");
}

// Reads the texts of categorical columns. Returns for each feature whether its column has another
// type than in the dataset.
absl::StatusOr<std::vector<bool>> ReadTexts(const FeatureColumns& features,
                                            const std::string& target, Table* rows) {
  std::vector<bool> converted(features.columns().size());
  const int64_t count = rows->rows();
  for (Column& column : rows->columns) {
    const std::optional<size_t> found = features.Find(column.name);
    if (!found.has_value()) return ExtraColumn(column, target);
    const ColumnType type = features.columns()[*found].type;
    converted[*found] = column.type != type;
    if (column.type != ColumnType::kText || type == ColumnType::kNumeric) continue;
    RETURN_IF_ERROR(ValidateColumnCells(kQueryTable, column, count, NoLimits()));
    ReadAsCategories(&column);
  }
  return converted;
}

absl::Status DropMissingTargets(AppendedRows* rows, absl::string_view target) {
  std::vector<bool> kept(rows->y.size());
  for (size_t row = 0; row < kept.size(); ++row) kept[row] = !std::isnan(rows->y[row]);
  rows->dropped = std::count(kept.begin(), kept.end(), false);
  if (rows->dropped == 0) return absl::OkStatus();
  if (rows->dropped == rows->rows()) {
    return InvalidField(ColumnPath(kQueryTable, target), "the target column has no values");
  }
  KeepRows(kept, &rows->y);
  for (Column& column : rows->features.columns) {
    KeepRows(kept, &column.numbers);
    KeepRows(kept, &column.codes);
  }
  return absl::OkStatus();
}

void AppendCells(const Column& added, Column* column) {
  column->numbers.insert(column->numbers.end(), added.numbers.begin(), added.numbers.end());
  if (column->type == ColumnType::kNumeric) return;
  absl::flat_hash_map<std::string, int32_t> code_of;
  for (size_t i = 0; i < column->categories.size(); ++i) {
    code_of.emplace(column->categories[i], static_cast<int32_t>(i));
  }
  std::vector<int32_t> renumber;
  for (const std::string& category : added.categories) {
    const auto next = static_cast<int32_t>(column->categories.size());
    const auto [it, is_new] = code_of.try_emplace(category, next);
    if (is_new) column->categories.push_back(category);
    renumber.push_back(it->second);
  }
  column->codes.reserve(column->codes.size() + added.codes.size());
  for (const int32_t code : added.codes) {
    column->codes.push_back(code == kMissingCode ? kMissingCode : renumber[code]);
  }
}

// Whether the rows of a column from `first_row` on are those of another column.
bool EndsWith(const Column& column, int64_t first_row, const Column& end) {
  const auto same_number = [](double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b));
  };
  const auto same_category = [&](int32_t a, int32_t b) {
    if (a == kMissingCode || b == kMissingCode) return a == b;
    return column.categories[a] == end.categories[b];
  };
  return column.type == ColumnType::kNumeric
             ? std::equal(column.numbers.begin() + first_row, column.numbers.end(),
                          end.numbers.begin(), end.numbers.end(), same_number)
             : std::equal(column.codes.begin() + first_row, column.codes.end(), end.codes.begin(),
                          end.codes.end(), same_category);
}

}  // namespace

absl::StatusOr<AppendedRows> MatchAppendedRows(const Dataset& dataset, Table rows,
                                               MissingTargets missing_targets,
                                               const Limits& limits) {
  std::vector<KnownCategories> known;
  std::vector<FeatureColumn> columns;
  for (const Column& column : dataset.features.columns) {
    const KnownCategories& of_column = known.emplace_back(column, BaseRowCount(dataset));
    columns.push_back({column.name, column.type, /*left_out=*/false, column.meaning,
                       of_column.base.has_numbers() || of_column.all.has_numbers()});
  }
  const FeatureColumns features(std::move(columns));
  ASSIGN_OR_RETURN(Column target, TakeTarget(dataset.target, missing_targets, &rows));
  ASSIGN_OR_RETURN(const std::vector<bool> converted, ReadTexts(features, dataset.target, &rows));
  ASSIGN_OR_RETURN(const QueryColumns matched, MatchQueryRows(features, rows));
  if (rows.rows() != target.rows()) {
    return InvalidField(
        absl::StrCat(ColumnPath(kQueryTable, target.name), ".numeric.values"),
        absl::StrCat("has ", target.rows(), " cells, but the table has ", rows.rows(), " rows"));
  }
  AppendedRows appended;
  for (size_t i = 0; i < matched.size(); ++i) {
    Column column = matched[i];
    if (column.type == ColumnType::kCategorical && converted[i]) {
      UseKnownCategories(known[i], &column);
    }
    RETURN_IF_ERROR(Adopt(dataset.features.columns[i], limits, &column));
    appended.features.columns.push_back(std::move(column));
  }
  appended.y = std::move(target.numbers);
  RETURN_IF_ERROR(DropMissingTargets(&appended, target.name));
  return appended;
}

absl::StatusOr<Dataset> AppendRows(Dataset dataset, const AppendedRows& rows,
                                   const Limits& limits) {
  dataset.append_starts.push_back(static_cast<int64_t>(dataset.y.size()));
  for (size_t i = 0; i < dataset.features.columns.size(); ++i) {
    AppendCells(rows.features.columns[i], &dataset.features.columns[i]);
  }
  dataset.y.insert(dataset.y.end(), rows.y.begin(), rows.y.end());
  RETURN_IF_ERROR(ValidateDataset(dataset, limits));
  return dataset;
}

bool HasAppended(const Dataset& dataset, int64_t first_row, const AppendedRows& rows) {
  const auto all = static_cast<int64_t>(dataset.y.size());
  if (first_row < 0 || first_row > all || all - first_row != rows.rows()) return false;
  if (!dataset.append_starts.empty() && dataset.append_starts.back() != first_row) return false;
  if (!std::equal(rows.y.begin(), rows.y.end(), dataset.y.begin() + first_row)) return false;
  for (size_t i = 0; i < dataset.features.columns.size(); ++i) {
    if (!EndsWith(dataset.features.columns[i], first_row, rows.features.columns[i])) return false;
  }
  return true;
}

int64_t BaseRowCount(const Dataset& dataset) {
  return dataset.append_starts.empty() ? static_cast<int64_t>(dataset.y.size())
                                       : dataset.append_starts.front();
}

int64_t AppendedRowCount(const Dataset& dataset) {
  return static_cast<int64_t>(dataset.y.size()) - BaseRowCount(dataset);
}

Dataset FirstRows(const Dataset& dataset, int64_t rows) {
  Dataset first;
  for (const Column& column : dataset.features.columns) {
    first.features.columns.push_back(FirstRows(column, rows));
  }
  first.target = dataset.target;
  first.y.assign(dataset.y.begin(), dataset.y.begin() + rows);
  first.seasons = dataset.seasons;
  first.memory = dataset.memory;
  for (const int64_t start : dataset.append_starts) {
    if (start < rows) first.append_starts.push_back(start);
  }
  return first;
}

BaseRows::BaseRows(const Dataset& dataset) : dataset_(dataset) {
  if (!dataset.append_starts.empty()) copy_ = FirstRows(dataset, BaseRowCount(dataset));
}

Dataset WithoutAppends(Dataset dataset) {
  dataset.append_starts.clear();
  return dataset;
}

}  // namespace chorale
