#include "engine/backend/cuda/model.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/require.h"
#include "base/status_macros.h"
#include "engine/backend/cuda/device/weight_blob.h"
#include "engine/backend/token_offsets.h"
#include "kernels/cuda/layer/pack_weights.h"
#include "kernels/cuda/layout/kv_cache.h"

namespace chorale::cuda {
namespace {

using kernels::cuda::Matrix;

// Adds weight tiles, and the same as wgmma tiles if the device has wgmma.
void AddWeightTiles(const std::vector<uint16_t>& tiles, bool has_wgmma, WeightBlob& blob,
                    const uint16_t** weight_tiles, const uint16_t** wgmma_tiles) {
  blob.Add(tiles, weight_tiles);
  if (has_wgmma) blob.Add(kernels::cuda::PackWgmmaTiles(tiles), wgmma_tiles);
}

void AddLayer(const LayerWeights& weights, const ModelConfig& config, const KernelShape& shape,
              bool has_wgmma, WeightBlob& blob, kernels::cuda::LayerWeights& layer) {
  const int64_t d = config.d_model;
  const int64_t head_dim = config.head_dim();
  const auto heads = [&](const std::vector<float>& w, int64_t out) {
    return kernels::cuda::PadHeadOutputs(Matrix{w, out, d}, head_dim, shape.head_dim);
  };
  Matrix wq = heads(weights.wq, config.n_heads * head_dim);
  // Scores come out in units of log 2, ready for the exponential.
  const double scale = std::numbers::log2e / std::sqrt(static_cast<double>(head_dim));
  for (float& w : wq.values) w = static_cast<float>(w * scale);
  const Matrix projection = kernels::cuda::StackOutputs(
      {wq, heads(weights.wk, config.kv_width()), heads(weights.wv, config.kv_width())});
  AddWeightTiles(kernels::cuda::PackPreAttentionTiles({weights.feature, d, d}, projection),
                 has_wgmma, blob, &layer.pre_attention.weight_tiles,
                 &layer.pre_attention.wgmma_tiles);
  blob.Add(kernels::cuda::PackPreAttentionVectors(weights.norm1.gamma, weights.norm1.beta),
           &layer.pre_attention.vectors);

  const Matrix wo = kernels::cuda::PadHeadInputs({weights.wo, d, config.n_heads * head_dim},
                                                 head_dim, shape.head_dim);
  AddWeightTiles(kernels::cuda::PackPostAttentionTiles(wo, {weights.w1, config.d_ff, d},
                                                       {weights.w2, d, config.d_ff}),
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

// A block of the device has the shared memory that the kernels need for such a model.
absl::Status CheckSharedMemory(const KernelShape& shape, const DeviceRowEncoder& encoder,
                               const Device& device) {
  const int shared_bytes = device.properties().shared_bytes_per_block;
  const kernels::cuda::LayerParams rows = {.post_attention = {},
                                           .pre_attention = {},
                                           .tile_count = 1,
                                           .width = shape.width,
                                           .heads = shape.heads,
                                           .kv_heads = shape.kv_heads,
                                           .head_dim = shape.head_dim,
                                           .hidden = shape.hidden};
  if (const auto block_rows = kernels::cuda::ChooseBlockRows(rows, 1, shared_bytes);
      !block_rows.ok()) {
    return block_rows.status();
  }
  const int head_bytes = kernels::cuda::HeadSharedBytes({.weights = {},
                                                         .width = shape.width,
                                                         .hidden = shape.hidden,
                                                         .components = shape.components});
  if (head_bytes > shared_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a head of width ", shape.width, " with a hidden layer of ", shape.hidden,
                     " and ", shape.components, " components needs ", head_bytes,
                     " bytes of shared memory, but a block of the device has ", shared_bytes));
  }
  if (encoder.shared_bytes() <= shared_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the row encoder needs ", encoder.shared_bytes(),
                   " bytes of shared memory, but a block of the device has ", shared_bytes));
}

absl::Status CheckShape(const ModelConfig& config, const KernelShape& shape) {
  const auto refuse = [](absl::string_view name, int64_t value, absl::string_view limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("the GPU backend takes no model with ", name, " ", value, ", only ", limit));
  };
  if (config.d_model % 8 != 0 || config.d_model > kernels::cuda::kLargestWidth) {
    return refuse("d_model", config.d_model,
                  absl::StrCat("multiples of 8 up to ", kernels::cuda::kLargestWidth));
  }
  if (!kernels::cuda::IsSupportedHeadDim(shape.head_dim)) {
    return refuse("heads of width", config.head_dim(), "widths up to 16, 32, 64 or 128");
  }
  if (shape.queries > 2 * kernels::cuda::kLargestWidth) {
    return refuse("n_heads", config.n_heads, "fewer, or wider ones");
  }
  if (config.d_ff > kernels::cuda::kLargestHidden) {
    return refuse("d_ff", config.d_ff, absl::StrCat("up to ", kernels::cuda::kLargestHidden));
  }
  if (config.num_components > kernels::cuda::kMostComponents) {
    return refuse("num_components", config.num_components,
                  absl::StrCat("up to ", kernels::cuda::kMostComponents));
  }
  return absl::OkStatus();
}

}  // namespace

KernelShape::KernelShape(const ModelConfig& config)
    : width(static_cast<int32_t>(config.d_model)),
      heads(static_cast<int32_t>(config.n_heads)),
      kv_heads(static_cast<int32_t>(config.n_kv_heads)),
      head_dim(static_cast<int32_t>(kernels::cuda::PaddedHeadDim(config.head_dim()))),
      hidden(static_cast<int32_t>(config.d_ff)),
      components(static_cast<int32_t>(config.num_components)),
      layers(static_cast<int32_t>(config.n_layers)),
      queries(heads * head_dim) {}

int64_t KernelShape::ContextElements(int64_t rows) const {
  return kernels::cuda::ContextLayerSize(rows, kv_heads, head_dim);
}

int64_t KernelShape::BufferElements(int64_t capacity, int64_t paths) const {
  return kernels::cuda::BufferLayerSize(capacity, kernels::cuda::BufferPaths(paths), kv_heads,
                                        head_dim);
}

DeviceModel::DeviceModel(const Model& model, Device& device)
    : device_(device), config_(model.config), shape_(model.config) {}

DeviceModel::~DeviceModel() {
  if (memory_ != nullptr) device_.ReturnWeights(memory_);
}

absl::StatusOr<std::shared_ptr<const DeviceModel>> DeviceModel::Create(const Model& model,
                                                                       Device& device) {
  std::shared_ptr<DeviceModel> made(new DeviceModel(model, device));
  RETURN_IF_ERROR(CheckShape(made->config_, made->shape_));
  made->layers_.resize(model.layers.size());
  const bool has_wgmma = device.properties().compute_major == kernels::cuda::kWgmmaComputeMajor;
  WeightBlob blob;
  for (size_t l = 0; l < model.layers.size(); ++l) {
    AddLayer(model.layers[l], made->config_, made->shape_, has_wgmma, blob, made->layers_[l]);
  }
  AddHead(model.head, made->config_, blob, made->head_);
  blob.Add(model.embedding.y_weight, &made->y_weight_);
  blob.Add(TokenOffsets(model.embedding, made->config_), &made->offsets_);
  absl::StatusOr<std::unique_ptr<const DeviceRowEncoder>> encoder =
      MakeDeviceRowEncoder(model, blob);
  RETURN_IF_ERROR(encoder.status());
  made->row_encoder_ = *std::move(encoder);
  RETURN_IF_ERROR(CheckSharedMemory(made->shape_, *made->row_encoder_, device));
  const absl::StatusOr<const char*> memory = blob.MoveToDevice(device);
  RETURN_IF_ERROR(memory.status());
  made->memory_ = *memory;
  return made;
}

const DeviceModel& AsDeviceModel(const BackendModel& model) {
  const auto* cuda_model = dynamic_cast<const DeviceModel*>(&model);
  Require(cuda_model != nullptr, "the model belongs to the GPU backend");
  return *cuda_model;
}

}  // namespace chorale::cuda
