#include "engine/data/feature_transform.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "engine/data/category_dictionary.h"
#include "engine/data/column_statistics.h"
#include "engine/data/column_validation.h"
#include "engine/data/training_limits.h"

namespace chorale {
namespace {

constexpr absl::string_view kContextTable = "rows";

bool FitsFloat(double x) { return std::isfinite(static_cast<float>(x)); }

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

// Whether all numbers are equal and none is missing, or all are missing.
bool SaysNothing(absl::Span<const double> numbers) {
  const auto missing = [](double x) { return std::isnan(x); };
  if (missing(numbers.front())) return absl::c_all_of(numbers, missing);
  return absl::c_all_of(numbers, [&](double x) { return x == numbers.front(); });
}

std::vector<double> SortedDistinct(std::vector<double> numbers) {
  numbers.erase(std::remove_if(numbers.begin(), numbers.end(),
                               [](double number) { return std::isnan(number); }),
                numbers.end());
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// The distance from the bulk beyond which a cell gets a warning (FeatureTransform).
double DistanceOfFarCells(const Bulk& bulk, absl::Span<const double> numbers) {
  constexpr double kGap = 5;
  std::vector<double> distances;
  distances.reserve(numbers.size());
  for (const double x : numbers) {
    if (!std::isnan(x)) distances.push_back(bulk.Distance(x));
  }
  const auto n = static_cast<int64_t>(distances.size());
  if (bulk.everywhere() || n == 0) return std::numeric_limits<double>::infinity();
  return kGap * FindFarNumbers(std::move(distances), Bulk::kReach, kGap, MostFarNumbers(n)).limit;
}

absl::Status TooManyFeatures(int64_t features, int64_t left_out, int64_t most) {
  const std::string kept = left_out == 0 ? ""
                                         : absl::StrCat(", of which ", left_out,
                                                        " are constant or empty, and are dropped");
  return LimitExceeded(
      "rows.columns", absl::StrCat("has ", features, " feature columns", kept, "; the model takes ",
                                   most, ": drop the least informative columns"));
}

// The statistics for scaling, or an error that names the column.
absl::StatusOr<ColumnStatistics> FiniteStatistics(absl::string_view column,
                                                  absl::Span<const double> numbers) {
  const ColumnStatistics statistics = ComputeStatistics(numbers);
  if (!std::isfinite(statistics.mean) || !std::isfinite(statistics.std)) {
    return InvalidField(ColumnPath(kContextTable, column),
                        "its numbers are too large to compute their standard deviation in float64");
  }
  return statistics;
}

}  // namespace

absl::StatusOr<FeatureTransform> FeatureTransform::Fit(const Dataset& context,
                                                       const ModelConfig& config,
                                                       const std::optional<KnownSeason>& known) {
  const int64_t features = static_cast<int64_t>(context.features.columns.size());
  FeatureTransform transform;
  for (const Column& column : context.features.columns) {
    ASSIGN_OR_RETURN(ColumnTransform fitted, FitColumn(column, config.normalize_x));
    transform.columns_.push_back(std::move(fitted));
  }
  std::vector<FeatureColumn> names;
  for (const ColumnTransform& column : transform.columns_) {
    names.push_back({column.name, column.type, column.left_out, column.meaning,
                     column.categories.has_numbers()});
  }
  transform.names_ = FeatureColumns(std::move(names));
  const int64_t left_out =
      absl::c_count_if(transform.columns_, [](const ColumnTransform& c) { return c.left_out; });
  if (config.max_features > 0 && features - left_out > config.max_features) {
    return TooManyFeatures(features, left_out, config.max_features);
  }
  transform.used_features_ = features - left_out;
  RETURN_IF_ERROR(transform.FitSeason(context, config, known));
  RETURN_IF_ERROR(transform.FitCalendar(context, config));
  for (int64_t i = 0; i < features; ++i) {
    RETURN_IF_ERROR(transform.CheckContextColumn(context.features.columns[i], i));
  }
  RETURN_IF_ERROR(transform.FitTarget(context, config.normalize_y));
  return transform;
}

absl::Status FeatureTransform::FitSeason(const Dataset& context, const ModelConfig& config,
                                         const std::optional<KnownSeason>& known) {
  const auto features = static_cast<int64_t>(context.features.columns.size());
  const bool has_room = config.max_features == 0 || features < config.max_features;
  if (config.season_column == SeasonColumn::kNone || context.seasons == Seasons::kNotSought ||
      !has_room) {
    return absl::OkStatus();
  }
  sought_season_ = true;
  std::optional<Season> season;
  if (known.has_value()) {
    season = RestoreSeason(context, *known);
  } else {
    SeasonSearch search = FindSeason(context);
    season = search.season;
    if (!season.has_value()) index_verdicts_ = std::move(search.verdicts);
  }
  if (!season.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      ColumnTransform phase,
      FitColumn(PhasesOf(context.features.columns[season->column], *season), config.normalize_x));
  season_ = SeasonTransform{*season, std::move(phase)};
  return absl::OkStatus();
}

absl::Status FeatureTransform::FitCalendar(const Dataset& context, const ModelConfig& config) {
  if (config.season_column == SeasonColumn::kNone) return absl::OkStatus();
  auto features = static_cast<int64_t>(context.features.columns.size());
  if (season_.has_value()) ++features;
  for (size_t i = 0; i < context.features.columns.size(); ++i) {
    const Column& column = context.features.columns[i];
    const auto place = static_cast<int64_t>(i);
    const bool has_season = season_.has_value() && season_->season.column == place;
    for (const CalendarFeature feature : CalendarFeaturesOf(
             column, has_season ? std::make_optional(season_->season) : std::nullopt)) {
      if (config.max_features > 0 && features == config.max_features) return absl::OkStatus();
      const Column numbers = CalendarColumn(column, feature);
      if (SortedDistinct(numbers.numbers).size() < 2) continue;
      ASSIGN_OR_RETURN(ColumnTransform values, FitColumn(numbers, config.normalize_x));
      calendar_.push_back({place, feature, std::move(values)});
      ++features;
    }
  }
  return absl::OkStatus();
}

std::vector<CalendarFeature> FeatureTransform::calendar_features(int64_t column) const {
  std::vector<CalendarFeature> features;
  for (const CalendarTransform& calendar : calendar_) {
    if (calendar.column == column) features.push_back(calendar.feature);
  }
  return features;
}

// Checks a column at registration, so that encoding the context cannot fail later, and collects its
// warnings.
absl::Status FeatureTransform::CheckContextColumn(const Column& column, int64_t feature) {
  const ColumnTransform& fitted = columns_[feature];
  ColumnNote note;
  note.column = column.name;
  note.left_out = fitted.left_out;
  if (season_.has_value() && season_->season.column == feature) {
    const Season& season = season_->season;
    note.season_steps = season.period;
    if (season.months.has_value()) note.season_months = season.period * season.step;
  }
  if (column.meaning == Meaning::kDate && !index_verdicts_.empty() &&
      index_verdicts_[feature] != IndexVerdict::kNoPeriod) {
    note.no_index = std::string(SentenceOf(index_verdicts_[feature]));
  }
  for (size_t row = 0; row < column.numbers.size(); ++row) {
    const double x = column.numbers[row];
    if (std::isnan(x)) continue;
    if (!FitsFloat(fitted.Scale(x))) {
      return ScaledTooLarge(kContextTable, column.name, static_cast<int64_t>(row), x);
    }
    if (fitted.IsFar(x)) ++note.outside_bulk;
  }
  if (!note.empty()) context_notes_.push_back(std::move(note));
  return absl::OkStatus();
}

absl::StatusOr<FeatureTransform::ColumnTransform> FeatureTransform::FitColumn(
    const Column& column, Normalization normalize) {
  ColumnTransform fitted;
  fitted.name = column.name;
  fitted.type = column.type;
  fitted.meaning = column.meaning;
  std::vector<double> numbers = column.numbers;
  double fill = 0;
  if (column.type == ColumnType::kCategorical) {
    CategoryDictionary dictionary = CanonicalDictionary(column);
    numbers = CodesAsNumbers(column, dictionary);
    fill = MostFrequent(numbers, dictionary.categories.size());
    fitted.categories = CategoryLookup(std::move(dictionary.categories));
  }
  if (normalize == Normalization::kNone) {
    if (column.type == ColumnType::kNumeric) fill = ComputeStatistics(numbers).mean;
    fitted.scaled_fill = static_cast<float>(fitted.Scale(fill));
    return fitted;
  }
  fitted.left_out = SaysNothing(numbers);
  fitted.bulk = Bulk::Of(numbers);
  if (column.type == ColumnType::kNumeric && fitted.bulk.all_but_constant()) {
    fitted.seen = SortedDistinct(numbers);
  }
  fitted.far = DistanceOfFarCells(fitted.bulk, numbers);
  for (double& number : numbers) number = fitted.bulk.Squash(number);
  ASSIGN_OR_RETURN(ColumnStatistics statistics, FiniteStatistics(column.name, numbers));
  fitted.mean = statistics.mean;
  fitted.std = statistics.std;
  if (fitted.bulk.atom().has_value() && !fitted.bulk.everywhere()) {
    std::erase(numbers, *fitted.bulk.atom());
    fitted.std = std::max(fitted.std, ComputeStatistics(numbers).std);
  }
  if (column.type == ColumnType::kCategorical) {
    fitted.scaled_fill = static_cast<float>(fitted.Scale(fill));
  }
  return fitted;
}

absl::Status FeatureTransform::FitTarget(const Dataset& context, Normalization normalize) {
  if (normalize == Normalization::kZScore) {
    target_bound_ = TargetBound::Of(context.y);
    std::vector<double> values;
    values.reserve(context.y.size());
    for (const double y : context.y) values.push_back(target_bound_.BringBack(y));
    ASSIGN_OR_RETURN(ColumnStatistics statistics, FiniteStatistics(context.target, values));
    y_mean_ = statistics.mean;
    y_std_ = statistics.std;
  }
  if (!std::isfinite(std::abs(y_mean_) + y_std_ * double{std::numeric_limits<float>::max()})) {
    return InvalidField(
        ColumnPath(kContextTable, context.target),
        absl::StrCat("its numbers have the mean ", y_mean_, " and are scaled by ", y_std_,
                     "; the model's results would exceed the range of float64"));
  }
  target_support_ = TargetSupport::Of(context.y);
  target_note_.column = context.target;
  target_note_.snapped_to = target_support_.description();
  RETURN_IF_ERROR(CheckTargets(context.y, &target_note_));
  if (!target_note_.empty()) context_notes_.push_back(target_note_);
  return absl::OkStatus();
}

absl::Status FeatureTransform::CheckTargets(const std::vector<double>& y, ColumnNote* note) const {
  for (size_t row = 0; row < y.size(); ++row) {
    if (!std::isfinite(ContextToModel(y[row]))) {
      return ScaledTooLarge(kContextTable, note->column, static_cast<int64_t>(row), y[row]);
    }
    if (!target_bound_.Contains(y[row])) ++note->clipped_targets;
  }
  return absl::OkStatus();
}

}  // namespace chorale
