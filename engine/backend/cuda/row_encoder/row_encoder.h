// Row encoders on the GPU: engine/backend/row_encoder/row_encoder.h for rows that stay there. A new
// encoder is one new file with its implementation and one line in MakeDeviceRowEncoder.
//
// What an encoder learns from a context is small and stays on the host; it goes to the GPU with the
// rows that are encoded. A row's encoding depends on that row and the state alone.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_ROW_ENCODER_H_
#define CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_ROW_ENCODER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device/weight_blob.h"
#include "engine/data/feature_transform.h"
#include "engine/model/model.h"

namespace chorale::cuda {

// What is learnt from a context, task by task, so that a large context does not hold up others.
class DeviceRowEncoderFit {
 public:
  virtual ~DeviceRowEncoderFit() = default;
  virtual int64_t tasks() const = 0;      // at least 1
  virtual double task_flops() const = 0;  // not zero
  // REQUIRES: the tasks before it ran, with the same device.
  virtual void RunTask(int64_t task, const LaunchWorkspace& launch) = 0;
  // Never null. REQUIRES: every task ran, and the device has no error.
  virtual std::shared_ptr<const RowEncoderState> Finish() = 0;
};

// Immutable.
class DeviceRowEncoder {
 public:
  virtual ~DeviceRowEncoder() = default;

  // Both arguments, y [rows] in the model's target units, outlive what is returned.
  virtual std::unique_ptr<DeviceRowEncoderFit> NewFit(const FeatureMatrix& context,
                                                      absl::Span<const float> y) const = 0;

  // Writes the encodings of rows [first, first + rows) to out [rows, D] f32, device memory.
  virtual void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
                      int64_t rows, float* out, const LaunchWorkspace& launch) const = 0;

  // Floating-point operations, for fair sharing.
  virtual double EncodeFlops(int64_t rows, int64_t features) const = 0;

  // What a launch needs at least, and the shared memory of a block of the largest kernel.
  virtual int64_t memory_bytes() const = 0;
  virtual int shared_bytes() const = 0;
};

// The encoder whose weights the model has; it may be used once they are on the GPU. InvalidArgument
// for a shape that the kernels are not built for.
absl::StatusOr<std::unique_ptr<const DeviceRowEncoder>> MakeDeviceRowEncoder(const Model& model,
                                                                             WeightBlob& blob);

// See engine/backend/cuda/row_encoder/feature_mean.cc and cuda_cell_attention.cc.
std::unique_ptr<const DeviceRowEncoder> MakeFeatureMeanEncoder(const FeatureMeanWeights& weights,
                                                               WeightBlob& blob);
absl::StatusOr<std::unique_ptr<const DeviceRowEncoder>> MakeDeviceCellAttentionEncoder(
    const CellAttentionWeights& weights, const ModelConfig& config, WeightBlob& blob);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_ROW_ENCODER_H_
