#include "engine/backend/cuda/forward.h"

#include <algorithm>

#include "base/require.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/embed/embed.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {
namespace {

using kernels::cuda::kTileRows;
using kernels::cuda::KvSplit;
using kernels::cuda::LayerPart;

}  // namespace

Forward::Forward(const DeviceModel& model, const LaunchWorkspace& scratch)
    : model_(model),
      device_(scratch.device),
      wide_(model.wide() == nullptr
                ? std::optional<WideForward>()
                : std::make_optional<WideForward>(*model.wide(), model.config(), scratch)),
      states_(scratch.memory),
      max_partial_tiles_(scratch.bytes / PartialBytes(model.shape())) {}

int64_t Forward::ScratchBytes(const KernelShape& shape) {
  return shape.form == LayerForm::kWide ? WideForward::TileBytes(shape) : PartialBytes(shape);
}

void Forward::EmbedPaths(const TileSet& set) const {
  device_.Launch(kernels::cuda::LaunchEmbedPaths,
                 {.tiles = set.tiles,
                  .paths = set.paths,
                  .offsets = model_.offsets(),
                  .y_weight = model_.y_weight(),
                  .x = set.x,
                  .tile_count = set.count,
                  .width = model_.shape().width,
                  .buffer_positions = static_cast<int32_t>(model_.config().buffer_size)},
                 "embedding paths");
}

void Forward::EmbedRows(const TileSet& set, const float* encodings, int64_t rows,
                        const float* offset, const float* y) const {
  device_.Launch(kernels::cuda::LaunchEmbedRows,
                 {.encodings = encodings,
                  .offset = offset,
                  .y = y,
                  .y_weight = model_.y_weight(),
                  .x = set.x,
                  .rows = static_cast<int32_t>(rows),
                  .width = model_.shape().width},
                 "embedding rows");
}

void Forward::PreAttention(int64_t layer, const TileSet& set) const {
  if (wide_.has_value()) return wide_->PreAttention(layer, set);
  LaunchLayer(LayerPart::kPreAttention, layer, set, {});
}

// As many tiles at a time as there is room for their partials.
void Forward::AttentionAndMlp(int64_t layer, const TileSet& set) const {
  if (wide_.has_value()) return wide_->AttentionAndMlp(layer, set);
  const bool last = layer + 1 == model_.shape().layers;
  const LayerPart part = last ? LayerPart::kPostAttention : LayerPart::kPostThenPreAttention;
  for (int64_t first = 0; first < set.count; first += max_partial_tiles_) {
    const TileSet tiles =
        set.Part(model_.shape(), first, std::min(max_partial_tiles_, set.count - first));
    LaunchLayer(part, layer, tiles, Attend(layer, tiles));
  }
}

void Forward::Head(const TileSet& set, float* mixtures) const {
  if (wide_.has_value()) return wide_->Head(set, mixtures);
  const ModelConfig& config = model_.config();
  device_.Launch(kernels::cuda::LaunchHead,
                 {.tiles = set.tiles,
                  .x = set.x,
                  .paths = set.paths,
                  .mixtures = mixtures,
                  .weights = model_.head(),
                  .tile_count = set.count,
                  .shape = model_.shape(),
                  .epsilon = config.layer_norm_eps,
                  .std_min = config.std_min,
                  .std_max = config.std_max},
                 "the head");
}

int64_t Forward::SplitsOfTile(int64_t tiles, int64_t largest_context) const {
  if (wide_.has_value()) return wide_->SplitsOfTile(tiles, largest_context);
  const KvSplit split =
      kernels::cuda::ChooseSplit(tiles, model_.shape().heads, largest_context,
                                 max_partial_tiles_ / tiles, device_.properties().multiprocessors);
  return split == KvSplit::kSplit ? kernels::cuda::MaxContextSplits(largest_context) : 1;
}

Forward::States Forward::Attend(int64_t layer, const TileSet& set) const {
  const KernelShape& shape = model_.shape();
  States states;
  states.num_splits = static_cast<int32_t>(SplitsOfTile(set.count, set.largest_context));
  if (states.num_splits > 1) states.split = KvSplit::kSplit;
  const int64_t heads =
      static_cast<int64_t>(states.num_splits) * set.count * kTileRows * shape.heads;
  states.o = reinterpret_cast<float*>(states_);
  states.state = states.o + heads * shape.head_dim;
  device_.Launch(kernels::cuda::LaunchAttention,
                 {.tiles = set.tiles,
                  .q = set.q,
                  .partial_o = states.o,
                  .partial_ml = states.state,
                  .tile_count = set.count,
                  .shape = shape,
                  .layer = static_cast<int32_t>(layer),
                  .num_splits = states.num_splits,
                  .split = states.split,
                  .multiprocessors = device_.properties().multiprocessors},
                 "attention");
  return states;
}

void Forward::LaunchLayer(LayerPart part, int64_t layer, const TileSet& set,
                          const States& states) const {
  const int64_t kv_layer = part == LayerPart::kPostThenPreAttention ? layer + 1 : layer;
  const std::vector<kernels::cuda::LayerWeights>& layers = model_.layers();
  kernels::cuda::LayerParams params = {.tiles = set.tiles,
                                       .x = set.x,
                                       .partial_o = states.o,
                                       .partial_ml = states.state,
                                       .q = set.q,
                                       .post_attention = {},
                                       .pre_attention = {},
                                       .tile_count = set.count,
                                       .shape = model_.shape(),
                                       .kv_layer = static_cast<int32_t>(kv_layer),
                                       .split = states.split,
                                       .epsilon = model_.config().layer_norm_eps,
                                       .part = part};
  if (part != LayerPart::kPreAttention) params.post_attention = layers[layer].post_attention;
  if (part != LayerPart::kPostAttention) params.pre_attention = layers[kv_layer].pre_attention;
  const absl::StatusOr<int> block_rows = kernels::cuda::ChooseBlockRows(
      params, device_.properties().multiprocessors, device_.properties().shared_bytes_per_block);
  Require(block_rows.ok(), "the model's shape was checked when it was added");
  device_.Check(
      kernels::cuda::LaunchLayer(params, *block_rows, device_.properties().shared_bytes_per_block,
                                 device_.stream()),
      "a layer");
}

}  // namespace chorale::cuda
