// From a user's table to the numbers a model sees, and from a model's target units back to the
// user's. Fitted on a context once; immutable and thread-safe after that.
#ifndef CHORALE_ENGINE_DATA_FEATURE_TRANSFORM_H_
#define CHORALE_ENGINE_DATA_FEATURE_TRANSFORM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/table.h"
#include "engine/model/model_config.h"

namespace chorale {

// The features of some rows as the row encoder reads them.
struct FeatureMatrix {
  int64_t rows = 0;
  int64_t features = 0;
  std::vector<float> x;  // [rows, features], row-major, host; finite (missing cells are imputed)
  // [rows, features], 1 where x is imputed; empty when it is nowhere.
  std::vector<uint8_t> missing = {};
  // [features], 1 for categorical columns; empty when none is.
  std::vector<uint8_t> categorical = {};
};

// Categorical cells become the index of their category in the context's sorted dictionary. A
// missing cell, and a category that the context does not know, becomes the column's context mean
// (numeric; 0 when all of its cells are missing) or its most frequent code (categorical; the first
// in sorted order among equals). Then z-scoring, if the model asks for it, per column with the
// context's mean and standard deviation (1/n over the cells that are not missing). Statistics are
// float64, summed in row order, and do not depend on how the user numbered the categories.
//
// A numeric column or target without variation, as of a single row, is scaled by its magnitude: the
// constant c becomes 0, and 2c becomes 1 or -1. So results are the same in every unit. Zeros are
// only centred, and so is a single category, whose index is zero.
//
// Numbers that a float32 cannot hold after scaling are refused, and targets with a scale at which
// an answer of the model, a float32, could leave the range of a float64. So all answers are finite.
// The public API's names are used in errors: a context is called "rows" and a table given to Apply
// "targets".
class FeatureTransform {
 public:
  // REQUIRES: the context is valid (ValidateDataset). InvalidArgument when the model takes fewer
  // features, or numbers are too large.
  static absl::StatusOr<FeatureTransform> Fit(const Dataset& context, const ModelConfig& config);

  // InvalidArgument for a table that MatchTargets (engine/data/target_columns.h) refuses for this
  // context, or with numbers that are too large.
  absl::StatusOr<FeatureMatrix> Apply(const Table& table) const;

  // The model's y = (user's y - y_mean) / y_std, and back.
  double y_mean() const { return y_mean_; }
  double y_std() const { return y_std_; }
  float ToModel(double y) const { return static_cast<float>((y - y_mean_) / y_std_); }
  double ToUser(double y) const { return y * y_std_ + y_mean_; }

  int64_t features() const { return static_cast<int64_t>(columns_.size()); }

 private:
  struct ColumnTransform {
    std::string name;
    ColumnType type = ColumnType::kNumeric;
    std::vector<std::string> categories;  // sorted
    double fill = 0;                      // imputed for a missing cell, before scaling
    double mean = 0;
    double std = 1;

    // Adding zero turns a negative zero into zero, as the durable form of a dataset has it.
    double Scale(double x) const { return (x - mean) / std + 0.0; }
  };

  static absl::StatusOr<ColumnTransform> FitColumn(const Column& column, Normalization normalize);
  absl::Status FitTarget(const Dataset& context, Normalization normalize);
  // Writes column `feature` of the matrix. REQUIRES: the column's cells are valid.
  static absl::Status ApplyColumn(const ColumnTransform& fitted, const Column& column,
                                  int64_t feature, FeatureMatrix* matrix);

  std::vector<ColumnTransform> columns_;
  double y_mean_ = 0;
  double y_std_ = 1;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_FEATURE_TRANSFORM_H_
