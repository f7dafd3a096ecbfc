#include "engine/backend/cuda/model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/require.h"
#include "base/status_macros.h"
#include "engine/backend/cuda/device/weight_blob.h"
#include "engine/backend/cuda/layer_matrices.h"
#include "engine/backend/token_offsets.h"
#include "kernels/cuda/layer/pack_weights.h"
#include "kernels/cuda/layout/matrix.h"

namespace chorale::cuda {
namespace {

// Adds weight tiles, and the same as wgmma tiles if the device has wgmma.
void AddWeightTiles(const std::vector<uint16_t>& tiles, bool has_wgmma, WeightBlob& blob,
                    const uint16_t** weight_tiles, const uint16_t** wgmma_tiles) {
  blob.Add(tiles, weight_tiles);
  if (has_wgmma) blob.Add(kernels::cuda::PackWgmmaTiles(tiles), wgmma_tiles);
}

void AddLayer(const LayerWeights& weights, const ModelConfig& config, const KernelShape& shape,
              bool has_wgmma, WeightBlob& blob, kernels::cuda::LayerWeights& layer) {
  const LayerMatrices matrices(weights, config, shape);
  AddWeightTiles(kernels::cuda::PackPreAttentionTiles(matrices.feature, matrices.projection),
                 has_wgmma, blob, &layer.pre_attention.weight_tiles,
                 &layer.pre_attention.wgmma_tiles);
  blob.Add(kernels::cuda::PackPreAttentionVectors(weights.norm1.gamma, weights.norm1.beta),
           &layer.pre_attention.vectors);
  AddWeightTiles(kernels::cuda::PackPostAttentionTiles(matrices.out, matrices.up, matrices.down),
                 has_wgmma, blob, &layer.post_attention.weight_tiles,
                 &layer.post_attention.wgmma_tiles);
  blob.Add(kernels::cuda::PackPostAttentionVectors(weights.norm2.gamma, weights.norm2.beta,
                                                   weights.norm3.gamma, weights.norm3.beta,
                                                   weights.b2, weights.b1),
           &layer.post_attention.vectors);
}

void AddHead(const HeadWeights& weights, const ModelConfig& config, WeightBlob& blob,
             kernels::cuda::HeadWeights& head) {
  blob.Add(weights.norm.gamma, &head.gamma);
  blob.Add(weights.norm.beta, &head.beta);
  blob.Add(kernels::cuda::PackHeadMap({weights.w1, config.d_ff, config.d_model}), &head.w1);
  blob.Add(weights.b1, &head.b1);
  blob.Add(kernels::cuda::PackHeadMap({weights.w2, 3 * config.num_components, config.d_ff}),
           &head.w2);
  blob.Add(weights.b2, &head.b2);
  blob.Add(weights.mean_bias, &head.mean_bias);
  blob.Add(weights.std_bias, &head.std_bias);
  blob.Add(weights.weight_bias, &head.weight_bias);
}

// A block of the device has the shared memory that the row encoder's kernels need. That it has what
// layers and head need is known from KernelShape.
absl::Status CheckSharedMemory(const DeviceRowEncoder& encoder, const Device& device) {
  const int shared_bytes = device.properties().shared_bytes_per_block;
  if (encoder.shared_bytes() <= shared_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the row encoder needs ", encoder.shared_bytes(),
                   " bytes of shared memory, but a block of the device has ", shared_bytes));
}

}  // namespace

DeviceModel::DeviceModel(const Model& model, Device& device)
    : device_(device),
      config_(model.config),
      shape_(model.config, device.properties().shared_bytes_per_block) {}

DeviceModel::~DeviceModel() {
  if (memory_ != nullptr) device_.ReturnWeights(memory_);
}

absl::StatusOr<std::shared_ptr<const DeviceModel>> DeviceModel::Create(
    const Model& model, Device& device, kernels::cuda::ProductLibrary* products) {
  std::shared_ptr<DeviceModel> made(new DeviceModel(model, device));
  WeightBlob blob;
  if (made->shape_.form == LayerForm::kWide) {
    Require(products != nullptr, "a model of the wide form has a library for its products");
    made->wide_ = std::make_unique<WideModel>(model, made->shape_, *products, blob);
  } else {
    made->AddFused(model, blob);
  }
  blob.Add(model.embedding.y_weight, &made->y_weight_);
  blob.Add(TokenOffsets(model.embedding, made->config_), &made->offsets_);
  ASSIGN_OR_RETURN(std::unique_ptr<const DeviceRowEncoder> encoder,
                   MakeDeviceRowEncoder(model, blob));
  made->row_encoder_ = std::move(encoder);
  RETURN_IF_ERROR(CheckSharedMemory(*made->row_encoder_, device));
  ASSIGN_OR_RETURN(const char* const memory, blob.MoveToDevice(device));
  made->memory_ = memory;
  if (made->wide_ != nullptr) RETURN_IF_ERROR(made->wide_->Plan(device));
  return made;
}

void DeviceModel::AddFused(const Model& model, WeightBlob& blob) {
  layers_.resize(model.layers.size());
  const bool has_wgmma = device_.properties().compute_major == kernels::cuda::kWgmmaComputeMajor;
  for (size_t l = 0; l < model.layers.size(); ++l) {
    AddLayer(model.layers[l], config_, shape_, has_wgmma, blob, layers_[l]);
  }
  AddHead(model.head, config_, blob, head_);
}

// An algorithm of another version of the library may sum in another order, and in principle another
// process may have found other ones.
std::string DeviceModel::kv_format() const {
  if (wide_ == nullptr) return "";
  return absl::StrCat(wide_->library().description(), ", sums ",
                      absl::Hex(wide_->product_bits(), absl::kZeroPad16));
}

const DeviceModel& AsDeviceModel(const BackendModel& model) {
  const auto* cuda_model = dynamic_cast<const DeviceModel*>(&model);
  Require(cuda_model != nullptr, "the model belongs to the GPU backend");
  return *cuda_model;
}

}  // namespace chorale::cuda
