// A model's weights on the GPU in the form that the kernels read, and the resulting layouts.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_MODEL_H_
#define CHORALE_ENGINE_BACKEND_CUDA_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "engine/backend/cuda/layer_form.h"
#include "engine/backend/cuda/row_encoder/row_encoder.h"
#include "engine/model/model.h"
#include "kernels/cuda/gemm/gemm_library.h"

namespace chorale::cuda {

// Immutable and thread-safe.
class DeviceModel : public BackendModel {
 public:
  // Uploads the weights of a model. Returns ResourceExhausted if the weights do not fit, or if the
  // shared memory of the device is too small for the row encoder. A model of the unfused form needs
  // `products`, which must outlive it, and also returns the errors of PlanGemm.
  // `least_tiles_of_all_layers`: see BackendOptions. REQUIRES: KernelShape::Check returns OK for
  // the model on this device.
  static absl::StatusOr<std::shared_ptr<const DeviceModel>> Create(
      const Model& model, Device& device, kernels::cuda::GemmLibrary* products,
      int64_t least_tiles_of_all_layers);
  // Returns the memory to the device.
  ~DeviceModel() override;

  const ModelConfig& config() const override { return config_; }
  std::string form() const override { return layer_form_->name(); }
  std::string kv_format() const override { return layer_form_->kv_format(); }
  const KernelShape& shape() const { return shape_; }
  const LayerForm& layer_form() const { return *layer_form_; }
  const float* y_weight() const { return y_weight_; }  // [D], device memory
  // The offsets that are added to an encoding for its role (query row, context, or buffer
  // position): [2 + K, D], device memory.
  const float* offsets() const { return offsets_; }
  const float* context_offset() const { return offsets_ + shape_.width; }
  const DeviceRowEncoder& row_encoder() const { return *row_encoder_; }

 private:
  DeviceModel(const Model& model, Device& device);

  Device& device_;
  const char* memory_ = nullptr;
  const ModelConfig config_;
  const KernelShape shape_;
  std::unique_ptr<LayerForm> layer_form_;
  const float* y_weight_ = nullptr;
  const float* offsets_ = nullptr;
  std::unique_ptr<const DeviceRowEncoder> row_encoder_;
};

// REQUIRES: the model belongs to this backend.
const DeviceModel& AsDeviceModel(const BackendModel& model);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_MODEL_H_
