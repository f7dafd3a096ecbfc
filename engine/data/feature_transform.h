// Transforms a user's table into the input of a model, and model outputs back into the user's
// units. Fitted on a context once; immutable and thread-safe afterwards.
#ifndef CHORALE_ENGINE_DATA_FEATURE_TRANSFORM_H_
#define CHORALE_ENGINE_DATA_FEATURE_TRANSFORM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/append_rows.h"
#include "engine/data/bulk.h"
#include "engine/data/calendar_features.h"
#include "engine/data/category_lookup.h"
#include "engine/data/column_note.h"
#include "engine/data/query_columns.h"
#include "engine/data/season.h"
#include "engine/data/table.h"
#include "engine/data/target_bound.h"
#include "engine/data/target_support.h"
#include "engine/model/model_config.h"

namespace chorale {

// The version of the transform. Keys and values that another version computed are discarded. Change
// it whenever the results of FeatureTransform change.
inline constexpr absl::string_view kTransformVersion = "cells 7";

// The features of some rows as the row encoder reads them.
struct FeatureMatrix {
  int64_t rows = 0;
  int64_t features = 0;  // at least one
  std::vector<float> x;  // [rows, features], row-major, host; finite (missing cells are imputed)
  // [rows, features], 1 where x is imputed; empty if no cell is imputed.
  std::vector<uint8_t> missing = {};
  // [features], 1 for categorical columns; empty if there are none.
  std::vector<uint8_t> categorical = {};
};

// If rows were appended to the context, "the context" below is its first rows (BaseRows), to which
// the transform is fitted. The appended rows are transformed like query rows, except that their
// targets are clipped if they are errors beside those of the context.
//
// Categorical cells are replaced by the index of their category in the context's sorted dictionary.
// A missing cell, or a category that is not in the context, is marked as missing and imputed: in a
// numeric column by the column's mean in the context (0 if all of its cells are missing), in a
// categorical column by the most frequent code (the first in sorted order of equally frequent
// codes).
//
// A model with z-scoring (ModelConfig::normalize_x) then gets, by the same rule for numbers and
// codes:
//
//  1. An uninformative column is dropped, regardless of the request's cells: all of its cells in
//     the context are equal, or all are missing. If no column remains, the model gets a single
//     column of zeros.
//  2. In a numeric column of which at least 99 % of the numbers are equal, a number of a request is
//     replaced by the nearest number of the context (the smaller of two equally near numbers). The
//     model has seen no other number in this column, and would not treat it as a small difference.
//  3. A number far beyond the bulk of the column is compressed (engine/data/bulk.h).
//  4. The result is z-scored with the mean and standard deviation (1/n) of the context's cells that
//     are not missing. If at least half of the cells are one value, an atom, the standard deviation
//     of the other cells is used if it is larger: in a column that is mostly zero, the other cells
//     would otherwise have extreme z-scores. Statistics are computed in float64, summed in row
//     order, and do not depend on the user's numbering of categories.
//
// A cell gets a warning if its distance is more than 5 times the distance of the farthest other
// cell of the context, and more than 5 times the extent of the bulk. In the context, at most one
// cell in 50, or a single one, can get this warning.
//
// A model with a season column (ModelConfig::season_column) gets an additional last numeric column
// if FindSeason (engine/data/season.h) finds a season in the user's numbers, the dataset allows it,
// and the model accepts another column. It contains the Season::Phase of each row, fitted on the
// phases of the context and scaled like any other column. If the running index of a row is missing,
// its phase is missing. Before it come the calendar features of each column of dates
// (engine/data/calendar_features.h), as far as the model accepts them, scaled like other columns
// and without those that are constant.
//
// The target is z-scored in the same way, but instead of compression, values that are errors are
// clipped (engine/data/target_bound.h), and only in the context, where the model reads them. The
// model's outputs, and values of a request, are linear in the user's unit. A constant target, such
// as that of a single row, is scaled by its magnitude: the constant c becomes 0, and 2c becomes 1
// or -1, so that results do not depend on the unit. A target of zeros is only centred.
//
// Rejects numbers that exceed float32 after scaling, and targets with a scale at which a model
// output in float32 could exceed float64. So all outputs are finite. Errors use the names of the
// public API: "rows" for a context and "rows" for a table given to Apply.
class FeatureTransform {
 public:
  // Returns InvalidArgument if the model takes fewer features than remain after dropping, or if
  // numbers are too large. Fits to all rows: for a dataset with appends, pass its BaseRows. `known`
  // is the result of an earlier search by the same version of the transform in this context;
  // nullopt if there is none. It saves time and does not change any bit of the result. REQUIRES:
  // the context is valid (ValidateDataset).
  static absl::StatusOr<FeatureTransform> Fit(
      const Dataset& context, const ModelConfig& config,
      const std::optional<KnownSeason>& known = std::nullopt);

  // Returns InvalidArgument for a table that MatchQueryRows (engine/data/query_columns.h) rejects
  // for this context, or if numbers are too large. Appends the warnings about the table's columns
  // to `notes`, unless it is null.
  absl::StatusOr<FeatureMatrix> Apply(const Table& table, std::vector<ColumnNote>* notes = nullptr,
                                      ExtraColumns extra = ExtraColumns::kReject) const;

  // Returns the warnings about rows that are appended to the context, whose transform does not
  // change. InvalidArgument: Apply rejects the features, or a target exceeds float32 after scaling.
  // Otherwise the encoding of the rows cannot fail later.
  absl::StatusOr<std::vector<ColumnNote>> CheckAppendedRows(const AppendedRows& rows) const;

  // The model's y = (user's y - y_mean) / y_std, and back.
  double y_mean() const { return y_mean_; }
  double y_std() const { return y_std_; }
  float ToModel(double y) const { return static_cast<float>((y - y_mean_) / y_std_); }
  double ToUser(double y) const { return y * y_std_ + y_mean_; }
  // The values that the target can take, inferred from the context.
  const TargetSupport& target_support() const { return target_support_; }
  // Converts a target value of the context to the model's units, and clips errors.
  float ContextToModel(double y) const { return ToModel(target_bound_.BringBack(y)); }

  // The calendar features of a column of the context that the model gets.
  std::vector<CalendarFeature> calendar_features(int64_t column) const;

  // Whether a season was sought. If a season was found, a warning reports it.
  bool sought_season() const { return sought_season_; }

  // The warnings about the context: its features in order, then the target. Columns without a
  // warning are omitted.
  const std::vector<ColumnNote>& context_notes() const { return context_notes_; }
  // The warning about the target, which applies to every response; it may be empty.
  const ColumnNote& target_note() const { return target_note_; }
  // The number of columns of the context that are not dropped.
  int64_t used_features() const { return used_features_; }

 private:
  struct ColumnTransform {
    std::string name;
    ColumnType type = ColumnType::kNumeric;
    Meaning meaning = Meaning::kNumber;
    bool left_out = false;
    CategoryLookup categories;
    std::vector<double> seen;  // sorted, distinct: numbers of the context to snap to; or empty
    Bulk bulk;
    double far = std::numeric_limits<double>::infinity();  // a greater distance gets a warning
    float scaled_fill = 0;                                 // replaces a missing cell
    double mean = 0;
    double std = 1;

    // Adding zero turns a negative zero into zero, as in the durable form of a dataset.
    double Scale(double x) const { return (bulk.Squash(x) - mean) / std + 0.0; }
    bool IsFar(double x) const { return bulk.Distance(x) > far; }
  };

  // The column that a season adds.
  struct SeasonTransform {
    Season season;
    ColumnTransform phase;
  };

  // A column that a column of dates adds.
  struct CalendarTransform {
    int64_t column = 0;  // index of the column of dates
    CalendarFeature feature = CalendarFeature::kWeekday;
    ColumnTransform values;
  };

  static absl::StatusOr<ColumnTransform> FitColumn(const Column& column, Normalization normalize);
  absl::Status CheckContextColumn(const Column& column, int64_t feature);
  absl::Status FitSeason(const Dataset& context, const ModelConfig& config,
                         const std::optional<KnownSeason>& known);
  absl::Status FitCalendar(const Dataset& context, const ModelConfig& config);
  absl::Status FitTarget(const Dataset& context, Normalization normalize);
  // Counts the values that are clipped in the note.
  absl::Status CheckTargets(const std::vector<double>& y, ColumnNote* note) const;
  // Writes column `feature` of the matrix. REQUIRES: the column's cells are valid.
  static absl::Status ApplyNumbers(const ColumnTransform& fitted, const Column& column,
                                   int64_t feature, FeatureMatrix* matrix, ColumnNote* note);
  static int64_t CountDifferent(const ColumnTransform& fitted, const Column& column);
  static void ApplyCategories(const ColumnTransform& fitted, const Column& column, int64_t feature,
                              FeatureMatrix* matrix, ColumnNote* note);

  std::vector<ColumnTransform> columns_;
  FeatureColumns names_;  // of columns_
  std::optional<SeasonTransform> season_;
  std::vector<CalendarTransform> calendar_;
  bool sought_season_ = false;
  std::vector<IndexVerdict> index_verdicts_;  // [features] if a search found no season, else empty
  TargetBound target_bound_;
  double y_mean_ = 0;
  double y_std_ = 1;
  TargetSupport target_support_;
  std::vector<ColumnNote> context_notes_;
  ColumnNote target_note_;
  int64_t used_features_ = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_FEATURE_TRANSFORM_H_
