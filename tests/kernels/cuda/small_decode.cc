#include "tests/kernels/cuda/small_decode.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/integer_math.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layer/layers.h"
#include "kernels/cuda/layer/pack_weights.h"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/layout/weight_tiles.h"
#include "tests/kernels/cuda/attention_inputs.h"
#include "tests/kernels/cuda/device_tiles.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {
namespace {

constexpr float kDeviation = 0.09f;

Matrix RandomMatrix(int64_t out, int64_t in, uint32_t seed) {
  return {RandomTensor(out * in, seed, kDeviation), out, in};
}

// Keys and values that pad the last key block are zeros, as the layer kernel stores them. Key
// blocks behind it are NaN.
std::vector<uint16_t> RandomContext(const SmallModel& model, const SmallTile& tile, uint32_t seed) {
  const int rows = tile.context_rows;
  const int64_t layer_size =
      ContextLayerSize(tile.Capacity(), model.shape.kv_heads, model.shape.head_dim);
  std::vector<uint16_t> context;
  const int64_t blocks = ContextKeyBlocks(rows);
  const int64_t block_size = KeyBlockSize(model.shape.head_dim);
  const int64_t head_size = ContextKeyBlocks(tile.Capacity()) * block_size;
  for (float x : RandomTensor(model.layers * layer_size, seed, model.deviation)) {
    const int64_t head = static_cast<int64_t>(context.size()) / head_size % model.shape.kv_heads;
    context.push_back(ToBf16(head == 0 ? x * model.first_head : x));
  }
  for (int64_t head = 0; head < int64_t{model.layers} * model.shape.kv_heads; ++head) {
    uint16_t* const first = context.data() + head * head_size;
    std::fill(first + blocks * block_size, first + head_size, kNanBf16);
    uint16_t* const last = first + (blocks - 1) * block_size;
    for (int64_t key = rows - (blocks - 1) * kKeyBlockKeys; key < kKeyBlockKeys; ++key) {
      for (int d = 0; d < model.shape.head_dim; ++d) {
        last[KeyBlockKeyAt(static_cast<int>(key), d, model.shape.head_dim)] = 0;
        last[KeyBlockValueAt(static_cast<int>(key), d, model.shape.head_dim)] = 0;
      }
    }
  }
  return context;
}

}  // namespace

SmallDecode::SmallDecode(const SmallModel& model, const std::vector<SmallTile>& tiles,
                         const DeviceProperties& device)
    : model_(model),
      shapes_(tiles),
      shared_bytes_(device.shared_bytes_per_block),
      use_wgmma_(HasWgmmaAttention(model.shape.head_dim, device.compute_major)) {
  const ModelShape& shape = model.shape;
  const int queries = shape.query_width();
  uint32_t seed = 1;
  for (const SmallTile& tile : tiles) {
    num_splits_ =
        std::max(num_splits_, static_cast<int>(KvSplits(tile.context_rows, model.query_rows)));
    contexts_.emplace_back(RandomContext(model, tile, seed++));
    log_weights_.emplace_back(
        RandomLogWeights(model.layers * shape.kv_heads * ContextWeights(tile.Capacity()),
                         7000 + seed, std::max(tile.largest_log_weight, 0.0f)));
    std::vector<int32_t> order;
    std::mt19937 engine(seed++);
    for (int path = 0; path < tile.paths; ++path) {
      std::vector<int32_t> own(model.query_rows);
      std::iota(own.begin(), own.end(), 0);
      std::shuffle(own.begin(), own.end(), engine);
      order.insert(order.end(), own.begin(), own.end());
    }
    orders_.emplace_back(order);
  }
  std::vector<uint64_t> path_numbers(tiles.size() * kTilePaths);
  std::iota(path_numbers.begin(), path_numbers.end(), 0);
  path_numbers_ = DeviceArray<uint64_t>(path_numbers);
  // Enough for every vector of a layer and of the head.
  const int64_t hidden = kWeightTileOutputs * WeightTiles(shape.hidden);
  const std::vector<float> vectors =
      RandomTensor(5 * shape.width + hidden + 3 * shape.components, seed++);
  vectors_ = DeviceArray<float>(vectors);
  const auto random = [&seed](int64_t out, int64_t in) { return RandomMatrix(out, in, seed++); };
  const bool warpgroups = device.compute_major == kWgmmaComputeMajor;
  const auto add = [&](const std::vector<uint16_t>& tiles) {
    weight_tiles_.emplace_back(tiles);
    if (!warpgroups) return;
    wgmma_tiles_.emplace_back(PackWgmmaTiles(tiles));
    wgmma_column_tiles_.emplace_back(PackWgmmaColumnTiles(tiles));
  };
  for (int layer = 0; layer < model.layers; ++layer) {
    const Matrix feature = random(shape.width, shape.width);
    add(PackPreAttentionTiles(feature, random(shape.qkv_width(), shape.width)));
    const Matrix wo = random(shape.width, queries);
    const Matrix w1 = random(shape.hidden, shape.width);
    add(PackPostAttentionTiles(wo, w1, random(shape.width, shape.hidden)));
    const float* vector = vectors_.data();
    const auto data = [&](const std::vector<DeviceArray<uint16_t>>& tiles, int i) {
      return warpgroups ? tiles[2 * layer + i].data() : nullptr;
    };
    layers_.push_back({{weight_tiles_[2 * layer].data(), data(wgmma_tiles_, 0),
                        data(wgmma_column_tiles_, 0), vector + 4 * layer},
                       {weight_tiles_[2 * layer + 1].data(), data(wgmma_tiles_, 1),
                        data(wgmma_column_tiles_, 1), vector}});
  }
  encodings_ = DeviceArray<float>(RandomTensor(model.query_rows * shape.width, seed++));
  offsets_ = DeviceArray<float>(RandomTensor((2 + model.query_rows) * shape.width, seed++));
  const Matrix w1 = random(shape.hidden, shape.width);
  const Matrix w2 = random(3 * shape.components, shape.hidden);
  const HeadScales scales = HeadScalesOf(vectors, vectors, w1, vectors, w2);
  std::vector<uint16_t> maps = PackHeadMap(w1, scales.w1);
  const auto first_size = static_cast<int64_t>(maps.size());
  const std::vector<uint16_t> second = PackHeadMap(w2, scales.w2);
  maps.insert(maps.end(), second.begin(), second.end());
  head_maps_ = DeviceArray<uint16_t>(maps);
  const float* vector = vectors_.data();
  head_ = {vector,
           vector,
           head_maps_.data(),
           vector,
           head_maps_.data() + first_size,
           vector,
           vector,
           vector,
           vector,
           scales};
  const int64_t rows = int64_t{tile_count()} * kTileRows;
  q_ = DeviceArray<uint16_t>(rows * queries);
  partial_o_ = DeviceArray<float>(num_splits_ * rows * queries);
  partial_ml_ = DeviceArray<float>(num_splits_ * rows * shape.heads * 2);
  initial_values_ = RandomTensor(tile_count() * ValuesSize(), 99);
}

int64_t SmallDecode::BufferSize() const {
  return model_.layers * BufferLayerSize(model_.query_rows, kTilePaths, model_.shape.kv_heads,
                                         model_.shape.head_dim);
}

bool SmallDecode::weighted() const {
  return std::any_of(shapes_.begin(), shapes_.end(),
                     [](const SmallTile& tile) { return tile.largest_log_weight >= 0; });
}

Tile SmallDecode::TileOf(int index) const {
  return {.context = contexts_[index].data(),
          .context_log_weights =
              shapes_[index].largest_log_weight < 0 ? nullptr : log_weights_[index].data(),
          .context_rows = shapes_[index].context_rows,
          .context_capacity = shapes_[index].Capacity(),
          .groups = static_cast<int32_t>(CeilDiv(shapes_[index].paths, kGroupPaths))};
}

PathTile SmallDecode::PathTileOf(int index) const {
  const SmallTile& shape = shapes_[index];
  return {.encodings = encodings_.data(),
          .order = shape.in_order ? nullptr : orders_[index].data(),
          .values = values_.data() + index * ValuesSize(),
          .emitted_densities = densities_.data() + index * ValuesSize(),
          .path_numbers = path_numbers_.data() + index * kTilePaths,
          .seed = 7,
          .paths = shape.paths,
          .stride = shape.paths,
          .positions = model_.query_rows,
          .steps_left = shape.steps,
          .first_drawn = shape.first_drawn};
}

void SmallDecode::Upload() {
  values_ = DeviceArray<float>(initial_values_);
  densities_ = DeviceArray<double>(tile_count() * ValuesSize());
  buffer_ = DeviceArray<uint16_t>(tile_count() * BufferSize());
  std::vector<Tile> tiles;
  std::vector<PathTile> paths;
  for (int i = 0; i < tile_count(); ++i) {
    Tile tile = TileOf(i);
    tile.buffer = buffer_.data() + i * BufferSize();
    tile.buffer_paths = static_cast<int32_t>(BufferPaths(shapes_[i].paths));
    tile.buffer_capacity = model_.query_rows;
    tiles.push_back(tile);
    paths.push_back(PathTileOf(i));
  }
  tiles_ = DeviceTiles(tiles);
  paths_ = DeviceArray<PathTile>(paths);
  x_ = DeviceArray<float>(int64_t{launch_tiles()} * kTileRows * model_.shape.width);
}

void SmallDecode::UploadWholePaths(int path_positions, int first_path) {
  values_ = DeviceArray<float>(initial_values_);
  densities_ = DeviceArray<double>(tile_count() * ValuesSize());
  buffer_ = DeviceArray<uint16_t>(1);
  const int tile_paths = kTilePaths / path_positions;
  std::vector<Tile> tiles;
  std::vector<PathTile> paths;
  for (int i = 0; i < tile_count(); ++i) {
    for (int first = first_path; first < shapes_[i].paths; first += tile_paths) {
      PathTile path = PathTileOf(i);
      if (path.order != nullptr) path.order += int64_t{first} * model_.query_rows;
      path.values += first;
      path.emitted_densities += first;
      path.paths = std::min(tile_paths, path.paths - first);
      path.path_positions = path_positions;
      path.token_position = 0;
      Tile tile = TileOf(i);
      tile.groups = path.paths * path_positions / kGroupPaths;
      tile.path_positions = path_positions;
      tiles.push_back(tile);
      paths.push_back(path);
    }
  }
  tiles_ = DeviceTiles(tiles);
  paths_ = DeviceArray<PathTile>(paths);
  x_ = DeviceArray<float>(int64_t{launch_tiles()} * kTileRows * model_.shape.width);
}

SmallDecode::Result SmallDecode::Download(Stream stream) const {
  return {BitsOf<uint32_t>(values_.ToHost(stream)), BitsOf<uint64_t>(densities_.ToHost(stream)),
          buffer_.ToHost(stream)};
}

SmallDecode::Result SmallDecode::Run(KvSplit split, int block_rows, Stream stream) {
  Upload();
  for (int step = 0; step < model_.query_rows; ++step) {
    Step([&] { LayerByLayer(split, block_rows, stream); }, stream);
  }
  return Download(stream);
}

SmallDecode::Result SmallDecode::RunAllLayers(Stream stream) {
  Upload();
  for (int step = 0; step < model_.query_rows; ++step) {
    Step([&] { AllLayers(/*whole_paths=*/false, stream); }, stream);
  }
  return Download(stream);
}

SmallDecode::Result SmallDecode::RunWholePaths(int path_positions, Stream stream, int first_path) {
  UploadWholePaths(path_positions, first_path);
  Step([&] { AllLayers(/*whole_paths=*/true, stream); }, stream);
  return Download(stream);
}

void SmallDecode::Step(const std::function<void()>& layers, Stream stream) {
  layers();
  ExpectSuccess(LaunchHead({.tiles = tiles_.data(),
                            .x = x_.data(),
                            .paths = paths_.data(),
                            .weights = head_,
                            .tile_count = launch_tiles(),
                            .shape = model_.shape,
                            .epsilon = 1e-5f,
                            .std_min = 0.1f,
                            .std_max = 10},
                           stream),
                "the head");
}

EmbedPathsParams SmallDecode::Paths() {
  return {.tiles = tiles_.data(),
          .paths = paths_.data(),
          .offsets = offsets_.data(),
          .y_weight = vectors_.data(),
          .x = x_.data(),
          .tile_count = launch_tiles(),
          .width = model_.shape.width,
          .buffer_positions = model_.query_rows};
}

void SmallDecode::LayerByLayer(KvSplit split, int block_rows, Stream stream) {
  ExpectSuccess(LaunchEmbedPaths(Paths(), stream), "embedding");
  Rows(LayerPart::kPreAttention, 0, split, block_rows, stream);
  for (int layer = 1; layer <= model_.layers; ++layer) {
    Attend(layer - 1, split, stream);
    Rows(layer < model_.layers ? LayerPart::kPostThenPreAttention : LayerPart::kPostAttention,
         layer, split, block_rows, stream);
  }
}

void SmallDecode::AllLayers(bool whole_paths, Stream stream) {
  LayersParams params = {.paths = Paths(),
                         .layers = model_.layers,
                         .shape = model_.shape,
                         .epsilon = 1e-5f,
                         .whole_paths = whole_paths,
                         .weighted = weighted()};
  for (int layer = 0; layer < model_.layers; ++layer) {
    const auto& [pre_attention, post_attention] = layers_[layer];
    params.weights[layer] = {post_attention.wgmma_column_tiles, pre_attention.wgmma_column_tiles,
                             post_attention.vectors, pre_attention.vectors};
  }
  ExpectSuccess(LaunchLayers(params, stream), "all layers");
}

void SmallDecode::Attend(int layer, KvSplit split, Stream stream) {
  ExpectSuccess(LaunchAttention({.tiles = tiles_.data(),
                                 .q = q_.data(),
                                 .partial_o = partial_o_.data(),
                                 .partial_ml = partial_ml_.data(),
                                 .tile_count = launch_tiles(),
                                 .shape = model_.shape,
                                 .layer = layer,
                                 .num_splits = num_splits_,
                                 .split = split,
                                 .use_wgmma = use_wgmma_,
                                 .weighted = weighted()},
                                stream),
                "attention");
}

void SmallDecode::Rows(LayerPart stages, int layer, KvSplit split, int block_rows, Stream stream) {
  LayerParams params = {.tiles = tiles_.data(),
                        .x = x_.data(),
                        .partial_o = partial_o_.data(),
                        .partial_ml = partial_ml_.data(),
                        .q = q_.data(),
                        .post_attention = {},
                        .pre_attention = {},
                        .tile_count = launch_tiles(),
                        .shape = model_.shape,
                        .kv_layer = layer,
                        .split = split,
                        .epsilon = 1e-5f,
                        .part = stages};
  if (stages != LayerPart::kPreAttention) params.post_attention = layers_[layer - 1].post_attention;
  if (stages != LayerPart::kPostAttention) params.pre_attention = layers_[layer].pre_attention;
  ExpectSuccess(LaunchLayer(params, block_rows, shared_bytes_, stream), "rows");
}

}  // namespace chorale::kernels::cuda
