// From a user's table to the numbers a model sees, and from a model's target units back to the
// user's. Fitted on a context once; immutable and thread-safe after that.
#ifndef CHORALE_ENGINE_DATA_FEATURE_TRANSFORM_H_
#define CHORALE_ENGINE_DATA_FEATURE_TRANSFORM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/bulk.h"
#include "engine/data/category_lookup.h"
#include "engine/data/column_note.h"
#include "engine/data/season.h"
#include "engine/data/table.h"
#include "engine/data/target_bound.h"
#include "engine/data/target_columns.h"
#include "engine/data/target_support.h"
#include "engine/model/model_config.h"

namespace chorale {

// Of what the model sees of a table. Keys and values that were made by another are not used: change
// it with every change of FeatureTransform's results.
inline constexpr absl::string_view kTransformVersion = "cells 6";

// The features of some rows as the row encoder reads them.
struct FeatureMatrix {
  int64_t rows = 0;
  int64_t features = 0;  // at least one
  std::vector<float> x;  // [rows, features], row-major, host; finite (missing cells are imputed)
  // [rows, features], 1 where x is imputed; empty when it is nowhere.
  std::vector<uint8_t> missing = {};
  // [features], 1 for categorical columns; empty when none is.
  std::vector<uint8_t> categorical = {};
};

// Categorical cells become the index of their category in the context's sorted dictionary. A
// missing cell, and a category that the context does not know, becomes the column's context mean
// (numeric; 0 when all of its cells are missing) or its most frequent code (categorical; the first
// in sorted order among equals), and is marked as missing.
//
// A model that asks for z-scoring then gets, by the same rule for numbers and for codes:
//
//  1. A column that says nothing, because all of its cells in the context are equal or all are
//     missing, is left out, whatever a request has there. Where no column is left, one of zeros
//     stands for them.
//  2. A number of a request becomes the nearest that the context has (the smaller of two) in a
//     numeric column of which at least 99 % of the numbers are equal: one that the model has never
//     seen there would mean something else to it than a small difference.
//  3. What lies far outside the bulk of the column is drawn in (engine/data/bulk.h).
//  4. The result is z-scored with the mean and standard deviation (1/n) of the context's cells that
//     are not missing. Where at least half of them are one value, an atom, the deviation of the
//     others is taken if it is larger: of a column that is mostly zero, the others would lie far
//     out. Statistics are float64, summed in row order, and do not depend on how the user numbered
//     the categories.
//
// A cell that lies more than 5 times as far out as the farthest of the context's others, and more
// than 5 times as far as the bulk reaches, is noted. Of the context's, one in 50 may, or a single
// one.
//
// A model that asks for the phase of a season gets one numeric column more, the last, where
// FindSeason (engine/data/season.h) finds one in the user's numbers, the dataset does not forbid
// it, and the model takes so many columns: Season::Phase of each row, fitted on those of the
// context and scaled like any other. Where the running index is missing, so is the phase.
//
// The target is z-scored in the same way, but of its values only errors are brought back
// (engine/data/target_bound.h), and only those of the context, where the model reads them: its
// answers, and values of a request, are linear in the user's unit. A target without
// variation, as of a single row, is scaled by its magnitude: the constant c becomes 0, and 2c
// becomes 1 or -1. So results are the same in every unit. Zeros are only centred.
//
// Numbers that a float32 cannot hold after that are refused, and targets with a scale at which
// an answer of the model, a float32, could leave the range of a float64. So all answers are finite.
// The public API's names are used in errors: a context is called "rows" and a table given to Apply
// "targets".
class FeatureTransform {
 public:
  // REQUIRES: the context is valid (ValidateDataset). InvalidArgument when the model takes fewer
  // features than are not left out, or numbers are too large. `known`: what the same version of the
  // transform found in this context before; nothing if that is not known. It saves time, and
  // changes no bit.
  static absl::StatusOr<FeatureTransform> Fit(
      const Dataset& context, const ModelConfig& config,
      const std::optional<KnownSeason>& known = std::nullopt);

  // InvalidArgument for a table that MatchTargets (engine/data/target_columns.h) refuses for this
  // context, or with numbers that are too large. Appends to `notes`, if there are any, what was not
  // taken as it stands, of the table's columns.
  absl::StatusOr<FeatureMatrix> Apply(const Table& table,
                                      std::vector<ColumnNote>* notes = nullptr) const;

  // The model's y = (user's y - y_mean) / y_std, and back.
  double y_mean() const { return y_mean_; }
  double y_std() const { return y_std_; }
  float ToModel(double y) const { return static_cast<float>((y - y_mean_) / y_std_); }
  double ToUser(double y) const { return y * y_std_ + y_mean_; }
  // What the context shows of the values that the target can take.
  const TargetSupport& target_support() const { return target_support_; }
  // A value of the context as the model reads it.
  float ContextToModel(double y) const { return ToModel(target_bound_.BringBack(y)); }

  // Whether a season was sought; if one was found, a note says so.
  bool sought_season() const { return sought_season_; }

  // What was not taken as it stands of the context: its features in order, then the target. Only
  // columns that have something to say.
  const std::vector<ColumnNote>& context_notes() const { return context_notes_; }
  // That of the target, which concerns every answer; it may be empty.
  const ColumnNote& target_note() const { return target_note_; }

 private:
  struct ColumnTransform {
    std::string name;
    ColumnType type = ColumnType::kNumeric;
    bool left_out = false;
    CategoryLookup categories;
    std::vector<double> seen;  // sorted, distinct: the numbers to choose the nearest of; or empty
    Bulk bulk;
    double far = std::numeric_limits<double>::infinity();  // distance beyond which cells are noted
    float scaled_fill = 0;                                 // for a missing cell
    double mean = 0;
    double std = 1;

    // Adding zero turns a negative zero into zero, as the durable form of a dataset has it.
    double Scale(double x) const { return (bulk.Squash(x) - mean) / std + 0.0; }
    bool IsFar(double x) const { return bulk.Distance(x) > far; }
  };

  // The column that a season adds.
  struct SeasonTransform {
    Season season;
    ColumnTransform phase;
  };

  static absl::StatusOr<ColumnTransform> FitColumn(const Column& column, Normalization normalize);
  absl::Status CheckContextColumn(const Column& column, int64_t feature);
  absl::Status FitSeason(const Dataset& context, const ModelConfig& config,
                         const std::optional<KnownSeason>& known);
  absl::Status FitTarget(const Dataset& context, Normalization normalize);
  // Write column `feature` of the matrix. REQUIRES: the column's cells are valid.
  static absl::Status ApplyNumbers(const ColumnTransform& fitted, const Column& column,
                                   int64_t feature, FeatureMatrix* matrix, ColumnNote* note);
  static int64_t CountDifferent(const ColumnTransform& fitted, const Column& column);
  static void ApplyCategories(const ColumnTransform& fitted, const Column& column, int64_t feature,
                              FeatureMatrix* matrix, ColumnNote* note);

  std::vector<ColumnTransform> columns_;
  FeatureColumns names_;  // of them
  std::optional<SeasonTransform> season_;
  bool sought_season_ = false;
  std::vector<IndexVerdict> index_verdicts_;  // of the features, if no season was found; or empty
  TargetBound target_bound_;
  double y_mean_ = 0;
  double y_std_ = 1;
  TargetSupport target_support_;
  std::vector<ColumnNote> context_notes_;
  ColumnNote target_note_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_FEATURE_TRANSFORM_H_
