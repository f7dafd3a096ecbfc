#include "engine/data/feature_transform.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "engine/data/category_dictionary.h"
#include "engine/data/category_lookup.h"
#include "engine/data/column_statistics.h"
#include "engine/data/column_validation.h"
#include "engine/data/target_columns.h"

namespace chorale {
namespace {

constexpr absl::string_view kContextTable = "rows";

bool FitsFloat(double x) { return std::isfinite(static_cast<float>(x)); }

absl::Status TooLarge(absl::string_view table, absl::string_view column, int64_t row, double x) {
  return InvalidField(NumericCellPath(table, column, row),
                      absl::StrCat("is ", x,
                                   "; after scaling it is beyond what the model's float32 "
                                   "can hold (",
                                   std::numeric_limits<float>::max(), ")"));
}

// The cells of a categorical column as indices into `dictionary`, NaN where missing.
std::vector<double> CodesAsNumbers(const Column& column, const CategoryDictionary& dictionary) {
  std::vector<double> numbers;
  numbers.reserve(column.codes.size());
  for (const int32_t code : column.codes) {
    numbers.push_back(code == kMissingCode ? std::numeric_limits<double>::quiet_NaN()
                                           : dictionary.renumber[code]);
  }
  return numbers;
}

// The lowest of the most frequent codes; 0 if every cell is missing.
double MostFrequent(absl::Span<const double> codes, size_t categories) {
  std::vector<int64_t> counts(categories, 0);
  for (const double code : codes) {
    if (!std::isnan(code)) ++counts[static_cast<size_t>(code)];
  }
  return static_cast<double>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

// Statistics to scale by, or an error that names the column.
absl::StatusOr<ColumnStatistics> FiniteStatistics(absl::string_view column,
                                                  absl::Span<const double> numbers) {
  const ColumnStatistics statistics = ComputeStatistics(numbers);
  if (!std::isfinite(statistics.mean) || !std::isfinite(statistics.std)) {
    return InvalidField(ColumnPath(kContextTable, column),
                        "its numbers are too large for a standard deviation in float64");
  }
  return statistics;
}

}  // namespace

absl::StatusOr<FeatureTransform> FeatureTransform::Fit(const Dataset& context,
                                                       const ModelConfig& config) {
  const int64_t features = static_cast<int64_t>(context.features.columns.size());
  if (config.max_features > 0 && features > config.max_features) {
    return InvalidField(
        "rows.columns",
        absl::StrCat("has ", features, " feature columns; the model takes ", config.max_features));
  }
  FeatureTransform transform;
  for (const Column& column : context.features.columns) {
    absl::StatusOr<ColumnTransform> fitted = FitColumn(column, config.normalize_x);
    RETURN_IF_ERROR(fitted.status());
    transform.columns_.push_back(*std::move(fitted));
  }
  RETURN_IF_ERROR(transform.FitTarget(context, config.normalize_y));
  // So that encoding the context later cannot fail.
  for (int64_t i = 0; i < features; ++i) {
    const Column& column = context.features.columns[i];
    const ColumnTransform& fitted = transform.columns_[i];
    for (size_t row = 0; row < column.numbers.size(); ++row) {
      const double x = column.numbers[row];
      if (!std::isnan(x) && !FitsFloat(fitted.Scale(x))) {
        return TooLarge(kContextTable, column.name, static_cast<int64_t>(row), x);
      }
    }
  }
  return transform;
}

absl::StatusOr<FeatureTransform::ColumnTransform> FeatureTransform::FitColumn(
    const Column& column, Normalization normalize) {
  ColumnTransform fitted;
  fitted.name = column.name;
  fitted.type = column.type;
  std::vector<double> codes;
  absl::Span<const double> numbers = column.numbers;
  if (column.type == ColumnType::kCategorical) {
    CategoryDictionary dictionary = CanonicalDictionary(column);
    codes = CodesAsNumbers(column, dictionary);
    numbers = codes;
    fitted.categories = std::move(dictionary.categories);
  }
  const ColumnStatistics statistics = ComputeStatistics(numbers);
  fitted.fill = column.type == ColumnType::kCategorical
                    ? MostFrequent(numbers, fitted.categories.size())
                    : statistics.mean;
  if (normalize == Normalization::kZScore) {
    absl::StatusOr<ColumnStatistics> finite = FiniteStatistics(column.name, numbers);
    RETURN_IF_ERROR(finite.status());
    fitted.mean = finite->mean;
    fitted.std = finite->std;
  }
  return fitted;
}

absl::Status FeatureTransform::FitTarget(const Dataset& context, Normalization normalize) {
  if (normalize == Normalization::kZScore) {
    absl::StatusOr<ColumnStatistics> statistics = FiniteStatistics(context.target, context.y);
    RETURN_IF_ERROR(statistics.status());
    y_mean_ = statistics->mean;
    y_std_ = statistics->std;
  }
  if (!std::isfinite(std::abs(y_mean_) + y_std_ * double{std::numeric_limits<float>::max()})) {
    return InvalidField(
        ColumnPath(kContextTable, context.target),
        absl::StrCat("its numbers have the mean ", y_mean_, " and are scaled by ", y_std_,
                     "; values that a model could answer would be beyond what float64 can hold"));
  }
  for (size_t row = 0; row < context.y.size(); ++row) {
    if (!std::isfinite(ToModel(context.y[row]))) {
      return TooLarge(kContextTable, context.target, static_cast<int64_t>(row), context.y[row]);
    }
  }
  return absl::OkStatus();
}

absl::Status FeatureTransform::ApplyColumn(const ColumnTransform& fitted, const Column& column,
                                           int64_t feature, FeatureMatrix* matrix) {
  const auto scaled_fill = static_cast<float>(fitted.Scale(fitted.fill));
  const auto impute = [&](int64_t cell) {
    matrix->x[cell] = scaled_fill;
    matrix->missing.resize(matrix->x.size());
    matrix->missing[cell] = 1;
  };
  int64_t cell = feature;
  if (column.type == ColumnType::kNumeric) {
    for (size_t row = 0; row < column.numbers.size(); ++row, cell += matrix->features) {
      const double number = column.numbers[row];
      if (std::isnan(number)) {
        impute(cell);
        continue;
      }
      matrix->x[cell] = static_cast<float>(fitted.Scale(number));
      if (!std::isfinite(matrix->x[cell])) {
        return TooLarge(kTargetTable, column.name, static_cast<int64_t>(row), number);
      }
    }
    return absl::OkStatus();
  }
  matrix->categorical.resize(matrix->features);
  matrix->categorical[feature] = 1;
  std::vector<float> by_code;  // the value of each of the table's own categories; NaN if unknown
  by_code.reserve(column.categories.size());
  CategoryLookup known(fitted.categories);
  for (const std::string& category : column.categories) {
    const int64_t code = known.Find(category);
    by_code.push_back(code == CategoryLookup::kUnknown
                          ? NAN
                          : static_cast<float>(fitted.Scale(static_cast<double>(code))));
  }
  for (const int32_t code : column.codes) {
    if (code == kMissingCode || std::isnan(by_code[code])) {
      impute(cell);
    } else {
      matrix->x[cell] = by_code[code];
    }
    cell += matrix->features;
  }
  return absl::OkStatus();
}

absl::StatusOr<FeatureMatrix> FeatureTransform::Apply(const Table& table) const {
  std::vector<FeatureColumn> columns;
  columns.reserve(columns_.size());
  for (const ColumnTransform& column : columns_) columns.push_back({column.name, column.type});
  absl::StatusOr<std::vector<const Column*>> matched = MatchTargets(columns, table);
  RETURN_IF_ERROR(matched.status());
  FeatureMatrix matrix;
  matrix.rows = table.rows();
  matrix.features = features();
  matrix.x.resize(static_cast<size_t>(matrix.rows) * columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    RETURN_IF_ERROR(ApplyColumn(columns_[i], *(*matched)[i], static_cast<int64_t>(i), &matrix));
  }
  return matrix;
}

}  // namespace chorale
