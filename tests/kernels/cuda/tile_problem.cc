#include "tests/kernels/cuda/tile_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/cuda/layer/pack_weights.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/ops/append_kv.h"
#include "kernels/ops/panel_layout.h"
#include "kernels/ops/shared_context_attention.h"
#include "tests/kernels/cuda/attention_inputs.h"
#include "tests/kernels/cuda/device_tiles.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<uint16_t> Bf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  bits.reserve(values.size());
  for (float x : values) bits.push_back(ToBf16(x));
  return bits;
}

int PathOf(int64_t row) { return static_cast<int>(row % 64 / 16 * 8 + row % 8); }
bool IsBufferToken(int64_t row) { return row % 16 >= 8; }

}  // namespace

TileProblem::TileProblem(const ProblemShape& shape, uint32_t seed) : shape_(shape) {
  const int head_dim = shape.model.head_dim;
  // q . k has variance Dh deviation_q^2, and is multiplied by ln 2 (the kernel works in log 2).
  const float deviation =
      shape.score_deviation / std::sqrt(static_cast<float>(head_dim)) / std::numbers::ln2_v<float>;
  q_ = RandomTensor(rows() * shape.model.heads * head_dim, seed, deviation);
  for (size_t i = 0; i < q_.size(); i += head_dim) q_[i] = kQueryLevel;
  q_ = Rounded(q_);
  device_q_ = DeviceArray<uint16_t>(Bf16(q_));
  std::vector<Tile> tiles;
  for (const TileShape& tile : shape.tiles) {
    Tile on_device = {.context_rows = tile.context_rows,
                      .context_capacity = tile.Capacity(),
                      .groups = tile.groups};
    if (tile.shares_context) {
      contexts_.push_back(contexts_.back());
    } else {
      contexts_.push_back(RandomKeys(tile.context_rows, tile.context_score, ++seed));
      WeighKeys(tile, seed, contexts_.back());
      device_contexts_.emplace_back(PackContext(contexts_.back(), tile));
      device_log_weights_.emplace_back(PackLogWeights(
          contexts_.back().log_weights, shape.model.kv_heads, tile.Capacity(), kLayer, kLayers));
    }
    on_device.context = device_contexts_.back().data();
    if (!contexts_.back().log_weights.empty()) {
      on_device.context_log_weights = device_log_weights_.back().data();
    }
    buffers_.emplace_back();
    if (tile.paths > 0) {
      for (int path = 0; path < tile.paths; ++path) {
        buffers_.back().push_back(RandomKeys(tile.capacity, tile.buffer_score, seed += 2));
      }
      if (tile.infinite_path >= 0) {
        for (float& v : buffers_.back()[tile.infinite_path].v) v = kInfinity;
      }
      device_buffers_.emplace_back(PackBuffer(buffers_.back(), tile));
      on_device.buffer = device_buffers_.back().data();
      on_device.buffer_paths = static_cast<int32_t>(BufferPaths(tile.paths));
      on_device.buffer_capacity = tile.capacity;
      on_device.visible_query = tile.visible_query;
      on_device.visible_buffer = tile.visible_buffer;
    }
    tiles.push_back(on_device);
  }
  device_tiles_ = DeviceTiles(tiles);
}

bool TileProblem::Counts(int64_t row) const {
  const TileShape& tile = shape_.tiles[row / 64];
  if (row % 64 >= 16 * tile.groups) return false;
  return tile.paths == 0 || PathOf(row) < tile.paths;
}

TileProblem::Keys TileProblem::RandomKeys(int n, float score, uint32_t seed) const {
  const int64_t size = static_cast<int64_t>(n) * shape_.model.kv_heads * shape_.model.head_dim;
  Keys keys = {RandomTensor(size, 1000 + 2 * seed), RandomTensor(size, 1001 + 2 * seed)};
  for (int64_t i = 0; i < size; i += shape_.model.head_dim) {
    keys.k[i] = score / kQueryLevel / std::numbers::ln2_v<float>;
  }
  return {Rounded(keys.k), Rounded(keys.v), {}};
}

void TileProblem::WeighKeys(const TileShape& tile, uint32_t seed, Keys& keys) const {
  if (tile.largest_log_weight < 0) return;
  const int64_t kv_heads = shape_.model.kv_heads;
  keys.log_weights =
      RandomLogWeights(kv_heads * tile.context_rows, 7000 + seed, tile.largest_log_weight);
  for (int i = tile.first_padding; i < tile.first_padding + tile.padding_keys; ++i) {
    for (int64_t h = 0; h < kv_heads; ++h) {
      keys.log_weights[h * tile.context_rows + i] = kNoKeyLogWeight;
    }
    const int64_t width = kv_heads * shape_.model.head_dim;
    std::fill_n(keys.k.begin() + i * width, width, 0.0f);
    std::fill_n(keys.v.begin() + i * width, width, 0.0f);
  }
}

std::vector<uint16_t> TileProblem::PackContext(const Keys& keys, const TileShape& tile) const {
  const int rows = tile.context_rows;
  const int head_dim = shape_.model.head_dim;
  const int64_t layer_size = ContextLayerSize(tile.Capacity(), shape_.model.kv_heads, head_dim);
  std::vector<uint16_t> packed(kLayers * layer_size, kNanBf16);
  const int64_t blocks = ContextKeyBlocks(rows);
  for (int64_t key = 0; key < blocks * kKeyBlockKeys; ++key) {
    for (int64_t h = 0; h < shape_.model.kv_heads; ++h) {
      uint16_t* block =
          packed.data() + ContextKeyBlockAt(kLayer, h, key / kKeyBlockKeys, tile.Capacity(),
                                            shape_.model.kv_heads, head_dim);
      for (int d = 0; d < head_dim; ++d) {
        const int64_t at = (key * shape_.model.kv_heads + h) * head_dim + d;
        const int in_block = static_cast<int>(key % kKeyBlockKeys);
        if (key < rows) block[KeyBlockKeyAt(in_block, d, head_dim)] = ToBf16(keys.k[at]);
        block[KeyBlockValueAt(in_block, d, head_dim)] = key < rows ? ToBf16(keys.v[at]) : 0;
      }
    }
  }
  return packed;
}

std::vector<uint16_t> TileProblem::PackBuffer(const std::vector<Keys>& paths,
                                              const TileShape& tile) const {
  const int head_dim = shape_.model.head_dim;
  const int64_t buffer_paths = BufferPaths(tile.paths);
  const int64_t layer_size =
      BufferLayerSize(tile.capacity, buffer_paths, shape_.model.kv_heads, head_dim);
  std::vector<uint16_t> packed(kLayers * layer_size, kNanBf16);
  const int visible = std::max(tile.visible_query, tile.visible_buffer);
  for (int64_t path = 0; path < tile.paths; ++path) {
    for (int64_t position = 0; position < visible; ++position) {
      for (int64_t h = 0; h < shape_.model.kv_heads; ++h) {
        uint16_t* key = packed.data() + kLayer * layer_size +
                        BufferKeyAt(h, position, path, tile.capacity, buffer_paths, head_dim);
        for (int d = 0; d < head_dim; ++d) {
          const int64_t at = (position * shape_.model.kv_heads + h) * head_dim + d;
          key[d] = ToBf16(paths[path].k[at]);
          key[buffer_paths * head_dim + d] = ToBf16(paths[path].v[at]);
        }
      }
    }
  }
  return packed;
}

Attended TileProblem::Reference() const {
  const ModelShape& s = shape_.model;
  const int64_t kv_width = static_cast<int64_t>(s.kv_heads) * s.head_dim;
  const int64_t width = s.query_width();
  Attended all = {std::vector<float>(rows() * width, kNan),
                  std::vector<float>(rows() * s.heads, kNan)};
  const auto pack = [&](const Keys& keys, int64_t n, int64_t capacity, float* k, float* v) {
    if (n == 0) return;
    reference::AppendKv({.k = keys.k.data(),
                         .v = keys.v.data(),
                         .keys = k,
                         .values = v,
                         .n = n,
                         .capacity = capacity,
                         .kv_heads = s.kv_heads,
                         .head_dim = s.head_dim,
                         .kv_stride = kv_width});
  };
  for (int64_t row = 0; row < rows(); ++row) {
    if (!Counts(row)) continue;
    const TileShape& tile = shape_.tiles[row / 64];
    const int64_t n = tile.context_rows;
    std::vector<float> keys(s.kv_heads * PackedKeysSize(n, s.head_dim));
    std::vector<float> values(s.kv_heads * ValuesSize(n, s.head_dim));
    pack(contexts_[row / 64], n, n, keys.data(), values.data());
    std::vector<float> buffer_keys(s.kv_heads * PackedKeysSize(tile.capacity, s.head_dim));
    std::vector<float> buffer_values(s.kv_heads * ValuesSize(tile.capacity, s.head_dim));
    const int32_t path = 0;
    const int32_t visible = IsBufferToken(row) ? tile.visible_buffer : tile.visible_query;
    if (tile.paths > 0) {
      pack(buffers_[row / 64][PathOf(row)], tile.capacity, tile.capacity, buffer_keys.data(),
           buffer_values.data());
    }
    const std::vector<float> log_weights = NaturalLogWeights(contexts_[row / 64].log_weights);
    reference::SharedContextAttentionWithLse(
        {.q = q_.data() + row * width,
         .out = all.out.data() + row * width,
         .context_keys = keys.data(),
         .context_values = values.data(),
         .context_log_weights = log_weights.empty() ? nullptr : log_weights.data(),
         .buffer_keys = buffer_keys.data(),
         .buffer_values = buffer_values.data(),
         .row_path = tile.paths > 0 ? &path : nullptr,
         .row_visible = tile.paths > 0 ? &visible : nullptr,
         .rows = 1,
         .heads = s.heads,
         .kv_heads = s.kv_heads,
         .head_dim = s.head_dim,
         .context_rows = n,
         .context_capacity = n,
         .buffer_capacity = tile.capacity,
         .q_stride = width,
         .out_stride = width,
         .scale = std::numbers::ln2_v<float>},
        all.lse.data() + row * s.heads);
  }
  return all;
}

TileProblem::States TileProblem::Launch(KvSplit split, Stream stream) const {
  int64_t num_splits = 1;
  if (split == KvSplit::kSplit) {
    for (const TileShape& tile : shape_.tiles) {
      num_splits = std::max(num_splits, KvSplits(tile.context_rows, tile.capacity));
    }
  }
  const int64_t heads = num_splits * rows() * shape_.model.heads;
  States states = {DeviceArray<float>(heads * shape_.model.head_dim), DeviceArray<float>(heads * 2),
                   static_cast<int>(num_splits), split};
  const AttentionParams params = {.tiles = device_tiles_.data(),
                                  .q = device_q_.data(),
                                  .partial_o = states.partial_o.data(),
                                  .partial_ml = states.partial_ml.data(),
                                  .tile_count = tile_count(),
                                  .shape = shape_.model,
                                  .layer = kLayer,
                                  .num_splits = states.num_splits,
                                  .split = split,
                                  .multiprocessors = shape_.multiprocessors,
                                  .use_wgmma = shape_.use_wgmma,
                                  .weighted = weighted()};
  EXPECT_TRUE(ValidateAttention(params).ok()) << ValidateAttention(params);
  ExpectSuccess(LaunchAttention(params, stream), "launching attention");
  return states;
}

bool TileProblem::weighted() const {
  return std::any_of(contexts_.begin(), contexts_.end(),
                     [](const auto& context) { return !context.log_weights.empty(); });
}

DeviceArray<uint16_t> TileProblem::LaunchAttended(int q_stride, Stream stream) const {
  const int width = shape_.model.query_width();
  const std::vector<uint16_t> q = device_q_.ToHost(stream);
  std::vector<uint16_t> strided(rows() * q_stride, 0xffff);
  for (int64_t row = 0; row < rows(); ++row) {
    std::copy_n(q.begin() + row * width, width, strided.begin() + row * q_stride);
  }
  const DeviceArray<uint16_t> device_q(strided);
  DeviceArray<uint16_t> attended(rows() * width);
  const AttentionParams params = {.tiles = device_tiles_.data(),
                                  .q = device_q.data(),
                                  .q_stride = q_stride,
                                  .attended = attended.data(),
                                  .tile_count = tile_count(),
                                  .shape = shape_.model,
                                  .layer = kLayer,
                                  .num_splits = 1,
                                  .split = KvSplit::kSingle,
                                  .multiprocessors = shape_.multiprocessors,
                                  .use_wgmma = shape_.use_wgmma,
                                  .weighted = weighted()};
  EXPECT_TRUE(ValidateAttention(params).ok()) << ValidateAttention(params);
  ExpectSuccess(LaunchAttention(params, stream), "launching attention");
  ExpectSuccess(Synchronize(stream), "attending");
  return attended;
}

Attended TileProblem::Combine(const States& states, Stream stream) const {
  const int head_dim = shape_.model.head_dim;
  const std::vector<float> o = states.partial_o.ToHost(stream);
  const std::vector<float> state = states.partial_ml.ToHost(stream);
  const int64_t heads = rows() * shape_.model.heads;
  Attended all = {std::vector<float>(heads * head_dim, kNan), std::vector<float>(heads, kNan)};
  for (int64_t at = 0; at < heads; ++at) {
    const int64_t row = at / shape_.model.heads;
    if (!Counts(row)) continue;
    const TileShape& tile = shape_.tiles[row / 64];
    const int64_t splits =
        states.split == KvSplit::kSingle ? 1 : KvSplits(tile.context_rows, tile.capacity);
    double m = -INFINITY;
    for (int64_t split = 0; split < splits; ++split)
      m = std::max<double>(m, state[(split * heads + at) * 2]);
    double l = 0;
    std::vector<double> sum(head_dim);
    for (int64_t split = 0; split < splits; ++split) {
      const int64_t partial = split * heads + at;
      const double scale = m == -INFINITY ? 0 : std::exp2(state[partial * 2] - m);
      l += scale * state[partial * 2 + 1];
      for (int d = 0; d < head_dim; ++d) sum[d] += scale * o[partial * head_dim + d];
    }
    all.lse[at] = static_cast<float>((m + std::log2(l)) * std::numbers::ln2);
    for (int d = 0; d < head_dim; ++d) {
      all.out[at * head_dim + d] = static_cast<float>(l > 0 ? sum[d] / l : 0);
    }
  }
  return all;
}

}  // namespace chorale::kernels::cuda
