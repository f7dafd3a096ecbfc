#include "client/cpp/data_frame.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace chorale::client {

const char* MeaningName(Meaning meaning) {
  switch (meaning) {
    case Meaning::kNumber:
      return "numeric";
    case Meaning::kBoolean:
      return "boolean";
    case Meaning::kDate:
      return "date";
    case Meaning::kDuration:
      return "duration";
  }
  return "numeric";
}

int64_t DataColumn::row_count() const {
  switch (kind) {
    case ColumnKind::kNumeric:
      return static_cast<int64_t>(numbers.size());
    case ColumnKind::kCategorical:
      return static_cast<int64_t>(codes.size());
    case ColumnKind::kStrings:
      break;
  }
  return static_cast<int64_t>(strings.size());
}

int64_t DataColumn::missing_count() const {
  switch (kind) {
    case ColumnKind::kNumeric:
      return std::count_if(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); });
    case ColumnKind::kCategorical:
      return std::count(codes.begin(), codes.end(), kMissingCategory);
    case ColumnKind::kStrings:
      break;
  }
  return std::count(strings.begin(), strings.end(), "");
}

absl::Status DataFrame::AddNumeric(std::string name, std::vector<double> values, Meaning meaning) {
  for (size_t row = 0; row < values.size(); ++row) {
    const double value = values[row];
    if (std::isinf(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("column '", name, "', row ", row, ": the value is infinite"));
    }
    if (meaning == Meaning::kBoolean && !std::isnan(value) && value != 0 && value != 1) {
      return absl::InvalidArgumentError(absl::StrCat("column '", name, "', row ", row, ": ", value,
                                                     " is not a boolean: expected 0 or 1"));
    }
  }
  DataColumn column;
  column.name = std::move(name);
  column.meaning = meaning;
  column.numbers = std::move(values);
  return Add(std::move(column));
}

absl::Status DataFrame::AddCategorical(std::string name,
                                       const std::vector<std::optional<std::string>>& values) {
  std::vector<std::string> categories;
  std::vector<int32_t> codes;
  codes.reserve(values.size());
  absl::flat_hash_map<absl::string_view, int32_t> code_of;
  for (const std::optional<std::string>& value : values) {
    if (!value.has_value()) {
      codes.push_back(kMissingCategory);
      continue;
    }
    const auto [it, is_new] = code_of.try_emplace(*value, static_cast<int32_t>(categories.size()));
    if (is_new) categories.push_back(*value);
    codes.push_back(it->second);
  }
  return AddCategorical(std::move(name), std::move(categories), std::move(codes));
}

absl::Status DataFrame::AddCategorical(std::string name, std::vector<std::string> categories,
                                       std::vector<int32_t> codes) {
  absl::flat_hash_set<absl::string_view> seen;
  for (const std::string& category : categories) {
    if (category.empty() || !seen.insert(category).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("column '", name, "': category '", category,
                       category.empty() ? "' is empty" : "' is listed twice"));
    }
  }
  const auto count = static_cast<int32_t>(categories.size());
  for (size_t row = 0; row < codes.size(); ++row) {
    if (codes[row] < kMissingCategory || codes[row] >= count) {
      return absl::InvalidArgumentError(absl::StrCat("column '", name, "', row ", row, ": code ",
                                                     codes[row], " for ", count, " categories"));
    }
  }
  DataColumn column;
  column.name = std::move(name);
  column.kind = ColumnKind::kCategorical;
  column.categories = std::move(categories);
  column.codes = std::move(codes);
  return Add(std::move(column));
}

absl::Status DataFrame::AddStrings(std::string name,
                                   std::vector<std::optional<std::string>> values) {
  DataColumn column;
  column.name = std::move(name);
  column.kind = ColumnKind::kStrings;
  column.strings.reserve(values.size());
  for (std::optional<std::string>& value : values) {
    column.strings.push_back(std::move(value).value_or(""));
  }
  return Add(std::move(column));
}

const DataColumn* DataFrame::Find(absl::string_view name) const {
  const auto it = index_of_.find(name);
  return it == index_of_.end() ? nullptr : &columns_[it->second];
}

absl::Status DataFrame::Add(DataColumn column) {
  if (column.name.empty()) return absl::InvalidArgumentError("a column has an empty name");
  if (Find(column.name) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("column '", column.name, "' already exists"));
  }
  if (!columns_.empty() && column.row_count() != row_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("column '", column.name, "' has ", column.row_count(),
                     " rows, but the other columns have ", row_count()));
  }
  index_of_.emplace(column.name, columns_.size());
  columns_.push_back(std::move(column));
  return absl::OkStatus();
}

DataFrame DataFrame::Take(absl::Span<const int64_t> rows) const {
  DataFrame taken = *this;
  const auto take = [rows](const auto& all, auto* some) {
    some->clear();
    if (all.empty()) return;  // of another kind of column
    for (const int64_t row : rows) some->push_back(all[row]);
  };
  for (size_t i = 0; i < columns_.size(); ++i) {
    take(columns_[i].numbers, &taken.columns_[i].numbers);
    take(columns_[i].codes, &taken.columns_[i].codes);
    take(columns_[i].strings, &taken.columns_[i].strings);
  }
  return taken;
}

void DataFrame::Remove(absl::Span<const std::string> names) {
  const absl::flat_hash_set<absl::string_view> removed(names.begin(), names.end());
  std::erase_if(columns_, [&](const DataColumn& column) { return removed.contains(column.name); });
  index_of_.clear();
  for (size_t i = 0; i < columns_.size(); ++i) index_of_.emplace(columns_[i].name, i);
}

}  // namespace chorale::client
