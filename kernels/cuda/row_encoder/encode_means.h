// The row encoder "feature_mean" from the means of its rows on, which the host takes while it
// copies them: encoding = mean * weight + bias.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_ENCODE_MEANS_H_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_ENCODE_MEANS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// Device memory.
struct EncodeMeansParams {
  const double* means = nullptr;  // [rows]
  const float* weight = nullptr;  // [D]
  const float* bias = nullptr;    // [D]
  float* encodings = nullptr;     // [rows, D]
  int32_t rows = 0;
  int32_t width = 0;  // D
};

// InvalidArgument naming the field.
absl::Status ValidateEncodeMeans(const EncodeMeansParams& params);

// Computed in float64 and rounded once. REQUIRES: ValidateEncodeMeans(params).ok().
ErrorCode LaunchEncodeMeans(const EncodeMeansParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_ENCODE_MEANS_H_
