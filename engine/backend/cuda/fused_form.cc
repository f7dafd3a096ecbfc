#include "engine/backend/cuda/fused_form.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "base/require.h"
#include "engine/backend/cuda/encode_attention.h"
#include "engine/backend/cuda/layer_matrices.h"
#include "kernels/cuda/layer/layers.h"
#include "kernels/cuda/layer/pack_weights.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {
namespace {

using kernels::cuda::kTileRows;
using kernels::cuda::KvSplit;
using kernels::cuda::LayerPart;

// Adds weight tiles and, if the device has wgmma, the same weights in the orders of its kernels.
// `layer`: PreAttentionWeights or PostAttentionWeights.
template <typename Weights>
void AddWeightTiles(const std::vector<uint16_t>& tiles, const KernelShape& shape, bool has_wgmma,
                    WeightBlob& blob, Weights& layer) {
  blob.Add(tiles, &layer.weight_tiles);
  if (!has_wgmma) return;
  blob.Add(kernels::cuda::PackWgmmaTiles(tiles), &layer.wgmma_tiles);
  if (!kernels::cuda::HasTileKernel(shape)) return;
  blob.Add(kernels::cuda::PackWgmmaColumnTiles(tiles), &layer.wgmma_column_tiles);
}

void AddLayer(const LayerWeights& weights, const ModelConfig& config, const KernelShape& shape,
              bool has_wgmma, WeightBlob& blob, kernels::cuda::LayerWeights& layer) {
  const LayerMatrices matrices(weights, config, shape);
  AddWeightTiles(kernels::cuda::PackPreAttentionTiles(matrices.feature, matrices.projection), shape,
                 has_wgmma, blob, layer.pre_attention);
  blob.Add(kernels::cuda::PackPreAttentionVectors(weights.norm1.gamma, weights.norm1.beta),
           &layer.pre_attention.vectors);
  AddWeightTiles(kernels::cuda::PackPostAttentionTiles(matrices.out, matrices.up, matrices.down),
                 shape, has_wgmma, blob, layer.post_attention);
  blob.Add(kernels::cuda::PackPostAttentionVectors(weights.norm2.gamma, weights.norm2.beta,
                                                   weights.norm3.gamma, weights.norm3.beta,
                                                   weights.b2, weights.b1),
           &layer.post_attention.vectors);
}

void AddHead(const HeadWeights& weights, const ModelConfig& config, WeightBlob& blob,
             kernels::cuda::HeadWeights& head) {
  const kernels::cuda::Matrix w1 = {weights.w1, config.d_ff, config.d_model};
  const kernels::cuda::Matrix w2 = {weights.w2, 3 * config.num_components, config.d_ff};
  head.scales =
      kernels::cuda::HeadScalesOf(weights.norm.gamma, weights.norm.beta, w1, weights.b1, w2);
  blob.Add(weights.norm.gamma, &head.gamma);
  blob.Add(weights.norm.beta, &head.beta);
  blob.Add(kernels::cuda::PackHeadMap(w1, head.scales.w1), &head.w1);
  blob.Add(weights.b1, &head.b1);
  blob.Add(kernels::cuda::PackHeadMap(w2, head.scales.w2), &head.w2);
  blob.Add(weights.b2, &head.b2);
  blob.Add(weights.mean_bias, &head.mean_bias);
  blob.Add(weights.std_bias, &head.std_bias);
  blob.Add(weights.weight_bias, &head.weight_bias);
}

}  // namespace

FusedForm::FusedForm(const Model& model, const KernelShape& shape,
                     int64_t least_tiles_of_all_layers, Device& device, WeightBlob& blob)
    : config_(model.config),
      shape_(shape),
      least_tiles_of_all_layers_(least_tiles_of_all_layers),
      device_(device),
      layers_(model.layers.size()) {
  const bool has_wgmma = device.properties().compute_major == kernels::cuda::kWgmmaComputeMajor;
  for (size_t l = 0; l < layers_.size(); ++l) {
    AddLayer(model.layers[l], config_, shape_, has_wgmma, blob, layers_[l]);
  }
  AddHead(model.head, config_, blob, head_);
}

int64_t FusedForm::SplitsOfTile(int64_t tiles, int64_t largest_context,
                                const LaunchWorkspace& scratch) const {
  const int64_t splits_in_memory = scratch.bytes / PartialBytes(shape_) / tiles;
  const KvSplit split = kernels::cuda::ChooseSplit(tiles, shape_, largest_context, splits_in_memory,
                                                   device_.properties().multiprocessors,
                                                   HasWgmmaAttention(shape_, device_));
  return split == KvSplit::kSplit ? kernels::cuda::MaxKvSplits(largest_context) : 1;
}

void FusedForm::PreAttention(int64_t layer, const TileSet& set,
                             const LaunchWorkspace& /*scratch*/) const {
  LaunchLayer(LayerPart::kPreAttention, layer, set, {});
}

// Divides the tiles into parts whose partial results fit into the scratch memory.
void FusedForm::AttentionAndMlp(int64_t layer, const TileSet& set,
                                const LaunchWorkspace& scratch) const {
  const bool last = set.one_layer || layer + 1 == shape_.layers;
  const LayerPart part = last ? LayerPart::kPostAttention : LayerPart::kPostThenPreAttention;
  const int64_t most = scratch.bytes / PartialBytes(shape_);
  for (int64_t first = 0; first < set.count; first += most) {
    const TileSet tiles = set.Part(shape_, first, std::min(most, set.count - first));
    LaunchLayer(part, layer, tiles, Attend(layer, tiles, scratch));
  }
}

void FusedForm::PostAttention(int64_t layer, const TileSet& set, const uint16_t* attended,
                              const LaunchWorkspace& /*scratch*/) const {
  LaunchLayer(LayerPart::kPostAttention, layer, set, {.attended = attended});
}

FusedForm::Attention FusedForm::Attend(int64_t layer, const TileSet& set,
                                       const LaunchWorkspace& scratch) const {
  if (set.encodes && HasWgmmaAttention(shape_, device_)) {
    uint16_t* const attended = reinterpret_cast<uint16_t*>(scratch.memory);
    AttendToEncoded(layer, set, shape_, attended, device_);
    return {.attended = attended};
  }
  const int64_t splits = SplitsOfTile(set.count, set.largest_context, scratch);
  Attention attention;
  uint16_t* attended = nullptr;
  if (splits > 1) {
    float* const o = reinterpret_cast<float*>(scratch.memory);
    attention = {.split = KvSplit::kSplit,
                 .partial_o = o,
                 .partial_ml = o + splits * set.count * kTileRows * shape_.query_width()};
  } else {
    attended = reinterpret_cast<uint16_t*>(scratch.memory);
    attention.attended = attended;
  }
  device_.Launch(kernels::cuda::LaunchAttention,
                 {.tiles = set.tiles,
                  .q = set.q,
                  .partial_o = attention.partial_o,
                  .partial_ml = attention.partial_ml,
                  .attended = attended,
                  .tile_count = set.count,
                  .shape = shape_,
                  .layer = set.ContextLayer(layer),
                  .num_splits = static_cast<int32_t>(splits),
                  .split = attention.split,
                  .multiprocessors = device_.properties().multiprocessors,
                  .use_wgmma = HasWgmmaAttention(shape_, device_),
                  .weighted = set.weighted},
                 "attention");
  return attention;
}

void FusedForm::LaunchLayer(LayerPart part, int64_t layer, const TileSet& set,
                            const Attention& attention) const {
  // Of pre-attention.
  const int64_t pre_layer = part == LayerPart::kPostThenPreAttention ? layer + 1 : layer;
  kernels::cuda::LayerParams params = {.tiles = set.tiles,
                                       .x = set.x,
                                       .partial_o = attention.partial_o,
                                       .partial_ml = attention.partial_ml,
                                       .attended = attention.attended,
                                       .q = set.q,
                                       .post_attention = {},
                                       .pre_attention = {},
                                       .tile_count = set.count,
                                       .shape = shape_,
                                       .kv_layer = set.ContextLayer(pre_layer),
                                       .split = attention.split,
                                       .epsilon = config_.layer_norm_eps,
                                       .part = part};
  if (part != LayerPart::kPreAttention) params.post_attention = layers_[layer].post_attention;
  if (part != LayerPart::kPostAttention) params.pre_attention = layers_[pre_layer].pre_attention;
  const kernels::cuda::DeviceProperties& gpu = device_.properties();
  const absl::StatusOr<int> block_rows =
      kernels::cuda::ChooseBlockRows(params, gpu.multiprocessors, gpu.shared_bytes_per_block);
  Require(block_rows.ok(), "the model's shape was checked when it was added");
  device_.Check(
      kernels::cuda::LaunchLayer(params, *block_rows, gpu.shared_bytes_per_block, device_.stream()),
      "a layer");
}

bool FusedForm::AllLayers(const kernels::cuda::EmbedPathsParams& paths, const TileSet& set) const {
  if (!shape_.has_layers_kernel) return false;
  if (!set.whole_paths && set.count < least_tiles_of_all_layers_) return false;
  const auto layers = static_cast<int>(layers_.size());
  kernels::cuda::LayersParams params = {.paths = paths,
                                        .layers = layers,
                                        .shape = shape_,
                                        .epsilon = config_.layer_norm_eps,
                                        .whole_paths = set.whole_paths,
                                        .weighted = set.weighted};
  for (int l = 0; l < layers; ++l) {
    const auto& [pre_attention, post_attention] = layers_[l];
    params.weights[l] = {.post_tiles = post_attention.wgmma_column_tiles,
                         .pre_tiles = pre_attention.wgmma_column_tiles,
                         .post_vectors = post_attention.vectors,
                         .pre_vectors = pre_attention.vectors};
  }
  device_.Launch(kernels::cuda::LaunchLayers, params, "all layers");
  return true;
}

void FusedForm::Head(const TileSet& set, float* mixtures,
                     const LaunchWorkspace& /*scratch*/) const {
  device_.Launch(kernels::cuda::LaunchHead,
                 {.tiles = set.tiles,
                  .x = set.x,
                  .paths = set.paths,
                  .mixtures = mixtures,
                  .weights = head_,
                  .tile_count = set.count,
                  .shape = shape_,
                  .epsilon = config_.layer_norm_eps,
                  .std_min = config_.std_min,
                  .std_max = config_.std_max,
                  .multiprocessors = device_.properties().multiprocessors,
                  .shared_bytes = device_.properties().shared_bytes_per_block},
                 "the head");
}

}  // namespace chorale::cuda
