// A model's weights on the GPU, in the form that the kernels read, and the layouts that follow.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_MODEL_H_
#define CHORALE_ENGINE_BACKEND_CUDA_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/row_encoder/row_encoder.h"
#include "engine/model/model.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layer/layer.h"

namespace chorale::cuda {

// Sizes as the kernels have them: heads narrower than 16 are padded with zeros.
struct KernelShape {
  explicit KernelShape(const ModelConfig& config);

  int64_t ContextElements(int64_t rows) const;                    // of one layer, bf16
  int64_t BufferElements(int64_t capacity, int64_t paths) const;  // of one layer, bf16

  int32_t width = 0;     // D
  int32_t heads = 0;     // H
  int32_t kv_heads = 0;  // Hkv
  int32_t head_dim = 0;  // Dh, padded
  int32_t hidden = 0;    // Dff
  int32_t components = 0;
  int32_t layers = 0;
  int32_t queries = 0;  // H Dh
};

// Immutable and thread-safe.
class DeviceModel : public BackendModel {
 public:
  // InvalidArgument for a shape that the kernels are not built for; ResourceExhausted when the
  // weights do not fit, or the device has too little shared memory for the kernels.
  static absl::StatusOr<std::shared_ptr<const DeviceModel>> Create(const Model& model,
                                                                   Device& device);
  // Gives its memory back to the device.
  ~DeviceModel() override;

  const ModelConfig& config() const override { return config_; }
  const KernelShape& shape() const { return shape_; }
  const std::vector<kernels::cuda::LayerWeights>& layers() const { return layers_; }
  const kernels::cuda::HeadWeights& head() const { return head_; }
  const float* y_weight() const { return y_weight_; }  // [D], device
  // [2 + K, D], device: added to an encoding for its role: target, context, or buffer position.
  const float* offsets() const { return offsets_; }
  const float* context_offset() const { return offsets_ + shape_.width; }
  const DeviceRowEncoder& row_encoder() const { return *row_encoder_; }

 private:
  DeviceModel(const Model& model, Device& device);

  Device& device_;
  const char* memory_ = nullptr;
  const ModelConfig config_;
  const KernelShape shape_;
  std::vector<kernels::cuda::LayerWeights> layers_;
  kernels::cuda::HeadWeights head_;
  const float* y_weight_ = nullptr;
  const float* offsets_ = nullptr;
  std::unique_ptr<const DeviceRowEncoder> row_encoder_;
};

// REQUIRES: the model belongs to this backend.
const DeviceModel& AsDeviceModel(const BackendModel& model);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_MODEL_H_
