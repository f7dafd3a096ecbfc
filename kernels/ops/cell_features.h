// Elementwise features of table cells, the input of a row encoder's first linear map.
//
// A number x, with the soft limit s = 3, has the features
//   c = x where |x| <= s, else sign(x) (s + log(1 + |x| - s))     compresses heavy tails
//   features(x) = c, sin(w c) for each frequency w, cos(w c) for each frequency w
// with w = 1, 2, 4, ..., 64, which separate numbers with small differences.
//
// A cell has features(value), all zero if the cell is missing; 1 if it is missing, else 0; 1 if its
// column is categorical, else 0. With targets, features(y) of the cell's row follow.
#ifndef CHORALE_KERNELS_OPS_CELL_FEATURES_H_
#define CHORALE_KERNELS_OPS_CELL_FEATURES_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

inline constexpr float kSoftLimit = 3.0f;
inline constexpr int64_t kFrequencies = 7;  // 1, 2, 4, ..., 64
inline constexpr int64_t kNumberFeatures = 1 + 2 * kFrequencies;
inline constexpr int64_t kCellFeatures = kNumberFeatures + 2;

struct CellFeaturesParams {
  // One column's cells; adjacent rows are value_stride apart in both arrays.
  const float* values = nullptr;     // [rows]
  const uint8_t* missing = nullptr;  // [rows], nonzero for a missing cell; null if there are none
  const float* y = nullptr;          // [rows], contiguous, or null if rows have no target
  float* out = nullptr;  // [rows, kCellFeatures], with y [rows, kCellFeatures + kNumberFeatures]
  int64_t rows = 0;
  int64_t value_stride = 0;
  float categorical = 0;  // 1 for the cells of a categorical column, else 0

  int64_t width() const { return kCellFeatures + (y == nullptr ? 0 : kNumberFeatures); }
};

// Returns InvalidArgument with the field for null pointers and non-positive sizes.
absl::Status ValidateCellFeatures(const CellFeaturesParams& params);

// A cell's result does not depend on the other cells of the call. REQUIRES:
// ValidateCellFeatures(params).ok(), values and y are finite.
void CellFeatures(const CellFeaturesParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_CELL_FEATURES_H_
