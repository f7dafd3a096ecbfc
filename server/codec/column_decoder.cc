#include "server/codec/column_decoder.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"
#include "server/codec/meaning_codec.h"

namespace chorale {
namespace {

using MissingRows = google::protobuf::RepeatedField<int64_t>;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kMaxInteger = int64_t{1} << 53;
// Days since 1970-01-01 of 0001-01-01 and of 9999-12-31.
constexpr int64_t kFirstDay = -719'162;
constexpr int64_t kLastDay = 2'932'896;
constexpr int64_t kMicrosPerDay = int64_t{24} * 60 * 60 * 1'000'000;

std::string Element(absl::string_view path, absl::string_view field, int64_t index) {
  return absl::StrCat(path, ".", field, "[", index, "]");
}

absl::Status DecodeNumeric(const v1::NumericValues& message, absl::string_view path,
                           Column* column) {
  for (int i = 0; i < message.values_size(); ++i) {
    if (std::isinf(message.values(i))) {
      return InvalidField(Element(path, "values", i),
                          "is infinite; numbers must be finite, or NaN for a missing cell");
    }
  }
  const std::optional<Meaning> meaning = DecodeMeaning(message.meaning());
  if (!meaning.has_value()) {
    return InvalidField(absl::StrCat(path, ".meaning"),
                        absl::StrCat("is ", message.meaning(), ", which is not a known value"));
  }
  column->meaning = *meaning;
  column->numbers.assign(message.values().begin(), message.values().end());
  return absl::OkStatus();
}

absl::Status DecodeCategorical(const v1::CategoricalValues& message, absl::string_view path,
                               const TextBounds& bounds, Column* column) {
  column->type = ColumnType::kCategorical;
  if (message.categories_size() > bounds.max_categories) {
    return LimitExceeded(absl::StrCat(path, ".categories"),
                         absl::StrCat("has ", message.categories_size(),
                                      " categories; the limit is ", bounds.max_categories));
  }
  absl::flat_hash_set<absl::string_view> seen;
  for (int i = 0; i < message.categories_size(); ++i) {
    RETURN_IF_ERROR(CheckDistinctText(message.categories(i), bounds.max_text_bytes,
                                      Element(path, "categories", i), &seen));
  }
  for (int i = 0; i < message.codes_size(); ++i) {
    const int32_t code = message.codes(i);
    if (code < kMissingCode || code >= message.categories_size()) {
      return InvalidField(Element(path, "codes", i),
                          absl::StrCat("is ", code, "; the column has ", message.categories_size(),
                                       " categories, and ", kMissingCode, " is a missing cell"));
    }
  }
  column->categories.assign(message.categories().begin(), message.categories().end());
  column->codes.assign(message.codes().begin(), message.codes().end());
  return absl::OkStatus();
}

// Each distinct text once. Empty texts are missing cells.
absl::Status DecodeStrings(const v1::StringValues& message, absl::string_view path,
                           const TextBounds& bounds, Column* column) {
  column->type = ColumnType::kText;
  column->codes.reserve(message.values_size());
  absl::flat_hash_map<absl::string_view, int32_t> code_of;
  for (int i = 0; i < message.values_size(); ++i) {
    const std::string& text = message.values(i);
    if (text.empty()) {
      column->codes.push_back(kMissingCode);
      continue;
    }
    if (static_cast<int64_t>(text.size()) > bounds.max_text_bytes) {
      return LimitExceeded(
          Element(path, "values", i),
          absl::StrCat("has ", text.size(), " bytes; the limit is ", bounds.max_text_bytes));
    }
    const auto next = static_cast<int32_t>(column->categories.size());
    const auto [it, is_new] = code_of.try_emplace(text, next);
    if (is_new) column->categories.push_back(text);
    column->codes.push_back(it->second);
  }
  return absl::OkStatus();
}

absl::Status MarkMissing(const MissingRows& rows, absl::string_view path, Column* column) {
  const auto cells = static_cast<int64_t>(column->numbers.size());
  for (int i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= cells) {
      return InvalidField(Element(path, "missing_rows", i),
                          absl::StrCat("is ", rows[i], "; the column has ", cells, " rows"));
    }
    column->numbers[rows[i]] = kMissing;
  }
  return absl::OkStatus();
}

// Decodes values that become numbers. `to_number` returns the number of a value, and NaN if it is
// out of the range, which `range` describes. Values of missing rows are not checked.
template <typename Values, typename ToNumber>
absl::Status DecodeNumbers(const Values& values, const MissingRows& missing_rows,
                           absl::string_view path, absl::string_view field, Meaning meaning,
                           absl::string_view range, ToNumber to_number, Column* column) {
  column->meaning = meaning;
  column->numbers.assign(values.size(), 0);
  RETURN_IF_ERROR(MarkMissing(missing_rows, path, column));
  for (int i = 0; i < values.size(); ++i) {
    if (std::isnan(column->numbers[i])) continue;
    column->numbers[i] = to_number(values[i]);
    if (std::isnan(column->numbers[i])) {
      return InvalidField(Element(path, field, i), absl::StrCat("is ", values[i], "; ", range));
    }
  }
  return absl::OkStatus();
}

double DaysOf(int64_t microseconds) {
  int64_t days = microseconds / kMicrosPerDay;
  int64_t rest = microseconds % kMicrosPerDay;
  if (rest < 0) --days, rest += kMicrosPerDay;
  if (days < kFirstDay || days > kLastDay) return kMissing;
  // The same number as that of a text with this time (base/date_text.h).
  return static_cast<double>(days) + static_cast<double>(rest) / double{kMicrosPerDay};
}

}  // namespace

int64_t CellsOf(const v1::Column& column) {
  switch (column.values_case()) {
    case v1::Column::kNumeric:
      return column.numeric().values_size();
    case v1::Column::kCategorical:
      return column.categorical().codes_size();
    case v1::Column::kBools:
      return column.bools().values_size();
    case v1::Column::kIntegers:
      return column.integers().values_size();
    case v1::Column::kStrings:
      return column.strings().values_size();
    case v1::Column::kDates:
      return column.dates().days_size();
    case v1::Column::kTimestamps:
      return column.timestamps().microseconds_size();
    case v1::Column::VALUES_NOT_SET:
      break;
  }
  return 0;
}

absl::string_view FormOf(const v1::Column& column) {
  const google::protobuf::FieldDescriptor* const field =
      v1::Column::descriptor()->FindFieldByNumber(column.values_case());
  return field == nullptr ? absl::string_view() : absl::string_view(field->name());
}

absl::Status CheckDistinctText(absl::string_view text, int64_t max_bytes, absl::string_view path,
                               absl::flat_hash_set<absl::string_view>* seen) {
  if (text.empty()) return InvalidField(path, "must not be empty");
  if (static_cast<int64_t>(text.size()) > max_bytes) {
    return LimitExceeded(path,
                         absl::StrCat("has ", text.size(), " bytes; the limit is ", max_bytes));
  }
  if (!seen->insert(text).second) {
    return InvalidField(path, absl::StrCat(QuoteName(text), " occurs twice"));
  }
  return absl::OkStatus();
}

absl::Status DecodeValues(const v1::Column& message, absl::string_view path,
                          const TextBounds& bounds, Column* column) {
  const std::string at = absl::StrCat(path, ".", FormOf(message));
  switch (message.values_case()) {
    case v1::Column::kNumeric:
      return DecodeNumeric(message.numeric(), at, column);
    case v1::Column::kCategorical:
      return DecodeCategorical(message.categorical(), at, bounds, column);
    case v1::Column::kStrings:
      return DecodeStrings(message.strings(), at, bounds, column);
    case v1::Column::kBools:
      return DecodeNumbers(
          message.bools().values(), message.bools().missing_rows(), at, "values", Meaning::kBoolean,
          "", [](bool value) { return value ? 1.0 : 0.0; }, column);
    case v1::Column::kIntegers:
      return DecodeNumbers(
          message.integers().values(), message.integers().missing_rows(), at, "values",
          Meaning::kNumber, "integers must be between -2^53 and 2^53: send identifiers as strings",
          [](int64_t value) {
            const bool exact = value >= -kMaxInteger && value <= kMaxInteger;
            return exact ? static_cast<double>(value) : kMissing;
          },
          column);
    case v1::Column::kDates:
      return DecodeNumbers(
          message.dates().days(), message.dates().missing_rows(), at, "days", Meaning::kDate,
          "dates must be in the years 1 to 9999 (days since 1970-01-01)",
          [](int32_t day) {
            return day < kFirstDay || day > kLastDay ? kMissing : static_cast<double>(day);
          },
          column);
    case v1::Column::kTimestamps:
      return DecodeNumbers(message.timestamps().microseconds(), message.timestamps().missing_rows(),
                           at, "microseconds", Meaning::kDate,
                           "times must be in the years 1 to 9999 (microseconds since 1970-01-01)",
                           DaysOf, column);
    case v1::Column::VALUES_NOT_SET:
      break;
  }
  return InvalidField(path, "must have values");
}

}  // namespace chorale
