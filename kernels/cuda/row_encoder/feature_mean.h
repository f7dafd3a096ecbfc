// The row encoder "feature_mean", with the bits of engine/backend/row_encoder/feature_mean.cc:
//
//   mean     = sum of the row's cells, in their order, divided by their number
//   encoding = mean weight + bias
//
// in float64, the encoding rounded to float32. Of a row with more cells than there is memory for,
// several launches take some features each, in order: the first begins the sums, the last writes
// the encodings.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_FEATURE_MEAN_H_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_FEATURE_MEAN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// Pointers are device memory.
struct EncodeFeatureMeansParams {
  const float* cells = nullptr;   // [rows, columns] f32: from first_feature on
  const float* weight = nullptr;  // [D] f32
  const float* bias = nullptr;    // [D] f32
  double* sums = nullptr;         // [rows] f64: of the cells so far; null if this is all of them
  float* encodings = nullptr;     // [rows, D] f32
  int32_t rows = 0;
  int32_t columns = 0;
  int32_t first_feature = 0;
  int32_t features = 0;  // of a row
  int32_t width = 0;     // D, a multiple of 4
};

// InvalidArgument naming the field.
absl::Status ValidateEncodeFeatureMeans(const EncodeFeatureMeansParams& params);

// REQUIRES: ValidateEncodeFeatureMeans(params).ok().
ErrorCode LaunchEncodeFeatureMeans(const EncodeFeatureMeansParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_FEATURE_MEAN_H_
