#include "engine/backend/cuda/model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/require.h"
#include "base/status_macros.h"
#include "engine/backend/cuda/device/weight_blob.h"
#include "engine/backend/cuda/fused_form.h"
#include "engine/backend/cuda/unfused_form.h"
#include "engine/backend/token_offsets.h"

namespace chorale::cuda {
namespace {

std::unique_ptr<LayerForm> MakeLayerForm(const Model& model, const KernelShape& shape,
                                         kernels::cuda::GemmLibrary* products,
                                         int64_t least_tiles_of_all_layers, Device& device,
                                         WeightBlob& blob) {
  if (shape.fused) {
    return std::make_unique<FusedForm>(model, shape, least_tiles_of_all_layers, device, blob);
  }
  Require(products != nullptr, "a model of the unfused form has a library for its GEMMs");
  return std::make_unique<UnfusedForm>(model, shape, *products, device, blob);
}

// Checks that a block of the device has enough shared memory for the kernels of the row encoder.
// KernelShape checks this for layers and head.
absl::Status CheckSharedMemory(const DeviceRowEncoder& encoder, const Device& device) {
  const int shared_bytes = device.properties().shared_bytes_per_block;
  if (encoder.shared_bytes() <= shared_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the row encoder needs ", encoder.shared_bytes(),
                   " bytes of shared memory, but a block of the device has ", shared_bytes));
}

}  // namespace

DeviceModel::DeviceModel(const Model& model, Device& device)
    : device_(device), config_(model.config), shape_(model.config, device.properties()) {}

DeviceModel::~DeviceModel() {
  if (memory_ != nullptr) device_.ReturnWeights(memory_);
}

absl::StatusOr<std::shared_ptr<const DeviceModel>> DeviceModel::Create(
    const Model& model, Device& device, kernels::cuda::GemmLibrary* products,
    int64_t least_tiles_of_all_layers) {
  std::shared_ptr<DeviceModel> made(new DeviceModel(model, device));
  WeightBlob blob;
  made->layer_form_ =
      MakeLayerForm(model, made->shape_, products, least_tiles_of_all_layers, device, blob);
  blob.Add(model.embedding.y_weight, &made->y_weight_);
  blob.Add(TokenOffsets(model.embedding, made->config_), &made->offsets_);
  ASSIGN_OR_RETURN(std::unique_ptr<const DeviceRowEncoder> encoder,
                   MakeDeviceRowEncoder(model, blob));
  made->row_encoder_ = std::move(encoder);
  RETURN_IF_ERROR(CheckSharedMemory(*made->row_encoder_, device));
  ASSIGN_OR_RETURN(const char* const memory, blob.MoveToDevice(device));
  made->memory_ = memory;
  RETURN_IF_ERROR(made->layer_form_->Prepare());
  return made;
}

const DeviceModel& AsDeviceModel(const BackendModel& model) {
  const auto* cuda_model = dynamic_cast<const DeviceModel*>(&model);
  Require(cuda_model != nullptr, "the model belongs to the GPU backend");
  return *cuda_model;
}

}  // namespace chorale::cuda
