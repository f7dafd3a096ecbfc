#include "engine/data/column_conversion.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/normal_text.h"
#include "base/number_text.h"
#include "engine/data/column_validation.h"
#include "engine/data/text_columns.h"

namespace chorale {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

absl::StatusOr<Column> TextsToNumbers(absl::string_view table, const Column& column,
                                      Meaning meaning) {
  std::vector<std::optional<double>> number_of;  // [categories]
  number_of.reserve(column.categories.size());
  for (const std::string& text : column.categories) {
    const std::string form = NormalText(text);
    number_of.push_back(form.empty() ? kNoNumber : ParseCell(form, meaning));
  }
  Column numbers{.name = column.name, .type = ColumnType::kNumeric, .meaning = meaning};
  numbers.numbers.reserve(column.codes.size());
  for (size_t row = 0; row < column.codes.size(); ++row) {
    const int32_t code = column.codes[row];
    if (code == kMissingCode) {
      numbers.numbers.push_back(kNoNumber);
      continue;
    }
    if (!number_of[code].has_value()) {
      return InvalidField(
          absl::StrCat(ColumnPath(table, column.name), ".strings.values[", row, "]"),
          absl::StrCat("is ", QuoteName(column.categories[code]),
                       ", but the context's column requires ", ExpectedTexts(meaning)));
    }
    numbers.numbers.push_back(*number_of[code]);
  }
  return numbers;
}

Column TextsToCategories(Column column) {
  column.type = ColumnType::kCategorical;
  std::vector<bool> missing;  // [categories]
  missing.reserve(column.categories.size());
  for (const std::string& text : column.categories) missing.push_back(NormalText(text).empty());
  for (int32_t& code : column.codes) {
    if (code != kMissingCode && missing[code]) code = kMissingCode;
  }
  return column;
}

Column NumbersToCategories(const Column& column) {
  Column categories{.name = column.name, .type = ColumnType::kCategorical};
  categories.codes.reserve(column.numbers.size());
  absl::flat_hash_map<double, int32_t> code_of;
  for (const double number : column.numbers) {
    if (std::isnan(number)) {
      categories.codes.push_back(kMissingCode);
      continue;
    }
    const auto next = static_cast<int32_t>(categories.categories.size());
    const auto [it, is_new] = code_of.try_emplace(number, next);
    if (is_new) {
      categories.categories.push_back(column.meaning == Meaning::kBoolean
                                          ? (number != 0 ? "true" : "false")
                                          : FormatNumber(number));
    }
    categories.codes.push_back(it->second);
  }
  return categories;
}

}  // namespace

absl::StatusOr<Column> ConvertColumn(absl::string_view table, const Column& column, ColumnType type,
                                     Meaning meaning) {
  if (column.type == ColumnType::kText) {
    if (type == ColumnType::kNumeric) return TextsToNumbers(table, column, meaning);
    return TextsToCategories(column);
  }
  if (type == ColumnType::kNumeric) {
    return InvalidField(ColumnPath(table, column.name),
                        "is categorical but numeric in the context");
  }
  if (column.meaning == Meaning::kDate) {
    return InvalidField(ColumnPath(table, column.name),
                        "has dates but is categorical in the context");
  }
  return NumbersToCategories(column);
}

}  // namespace chorale
