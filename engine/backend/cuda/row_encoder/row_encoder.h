// Row encoders whose encodings stay on the GPU; see engine/backend/row_encoder/row_encoder.h.
//
// An encoder is a file of its own, its kernels, and a line in MakeDeviceRowEncoder.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_ROW_ENCODER_H_
#define CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_ROW_ENCODER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device/weight_blob.h"
#include "engine/backend/row_encoder/row_encoder.h"
#include "engine/data/feature_transform.h"
#include "engine/model/model.h"

namespace chorale::cuda {

// Immutable. The state that an encoder learns from a context is small and stays on the host; it is
// uploaded with the rows to encode.
class DeviceRowEncoder {
 public:
  virtual ~DeviceRowEncoder() = default;

  // y [rows] is in the model's target units. Both outlive the fit. Unlike on the CPU, tasks run in
  // their order, on the engine thread; Finish also requires that the device has no error.
  // REQUIRES: launch.bytes >= memory_bytes(), here and in Encode.
  virtual std::unique_ptr<RowEncoderFit> NewFit(const FeatureMatrix& context,
                                                absl::Span<const float> y,
                                                const LaunchWorkspace& launch) const = 0;

  // The state whose RowEncoderState::Bytes these are. DataLoss when they cannot be.
  virtual absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadState(
      absl::string_view bytes) const = 0;

  // Writes the encodings of rows [first, first + rows) to out [rows, D] f32, device memory, in the
  // order of the stream. An encoding depends on its row and the state alone.
  virtual void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
                      int64_t rows, float* out, const LaunchWorkspace& launch) const = 0;

  // Floating-point operations, for fair sharing.
  virtual double EncodeFlops(int64_t rows, int64_t features) const = 0;

  // The smallest launch workspace, and the shared memory of a block of the largest kernel.
  virtual int64_t memory_bytes() const = 0;
  virtual int shared_bytes() const = 0;
};

// The encoder for the model's weights, which it adds to the blob; it can be used once they are on
// the GPU. InvalidArgument for a shape that the kernels are not built for.
absl::StatusOr<std::unique_ptr<const DeviceRowEncoder>> MakeDeviceRowEncoder(const Model& model,
                                                                             WeightBlob& blob);

// See cell_attention.cc.
absl::StatusOr<std::unique_ptr<const DeviceRowEncoder>> MakeDeviceCellAttentionEncoder(
    const CellAttentionWeights& weights, const ModelConfig& config, WeightBlob& blob);

// See feature_mean.cc.
std::unique_ptr<const DeviceRowEncoder> MakeDeviceFeatureMeanEncoder(
    const FeatureMeanWeights& weights, WeightBlob& blob);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_ROW_ENCODER_ROW_ENCODER_H_
