// Row encoders that write their encodings to GPU memory; see
// engine/backend/row_encoder/row_encoder.h.
//
// Each encoder has its own file and kernels, and a line in MakeDeviceRowEncoder.
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

// Immutable. The state that an encoder learns from a context is small and stays on the host. It is
// uploaded together with the rows to encode.
class DeviceRowEncoder {
 public:
  virtual ~DeviceRowEncoder() = default;

  // Returns a fit to the first rows of `context`, as many as y has elements: y [rows] is in the
  // model's target units. `context` and `y` must outlive the fit. Unlike on the CPU, tasks run in
  // their order, on the engine thread. Finish also requires that the device has no error. REQUIRES:
  // launch.bytes >= memory_bytes(), here and in Encode.
  virtual std::unique_ptr<RowEncoderFit> NewFit(const FeatureMatrix& context,
                                                absl::Span<const float> y,
                                                const LaunchWorkspace& launch) const = 0;

  // Restores a state from its RowEncoderState::Bytes. Returns DataLoss for invalid bytes.
  virtual absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadState(
      absl::string_view bytes) const = 0;

  // Writes the encodings of rows [first, first + rows) to out [rows, D] f32, device memory, in
  // stream order. An encoding depends only on its row and the state.
  virtual void Encode(const RowEncoderState& state, const FeatureMatrix& features, int64_t first,
                      int64_t rows, float* out, const LaunchWorkspace& launch) const = 0;

  // Returns the floating-point operations, for fair sharing.
  virtual double EncodeFlops(int64_t rows, int64_t features) const = 0;

  // Return the minimum size of the launch workspace, and the shared memory of a block of the
  // largest kernel.
  virtual int64_t memory_bytes() const = 0;
  virtual int shared_bytes() const = 0;
};

// Returns the encoder for the model's weights, and adds the weights to the blob. The encoder can be
// used once they are on the GPU. Returns InvalidArgument if the kernels do not support the shape.
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
