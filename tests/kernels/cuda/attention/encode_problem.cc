#include "tests/kernels/cuda/attention/encode_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/cuda/attention/encode_attention.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/ops/panel_layout.h"
#include "tests/kernels/cuda/attention_inputs.h"
#include "tests/kernels/cuda/device_tiles.h"
#include "tests/kernels/reference/reference.h"
#include "tests/kernels/simd_targets.h"
#include "tests/kernels/tensor_matchers.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kLayers = 2;
constexpr int kLayer = 1;  // the one that is attended to; the other is NaN

}  // namespace

EncodeProblem::EncodeProblem(const EncodeCase& shape, uint32_t seed) : shape_(shape) {
  const float deviation = shape.score_deviation / std::sqrt(static_cast<float>(shape.head_dim)) /
                          std::numbers::ln2_v<float>;
  q_ = RandomTensor(Rows() * shape.heads * shape_.head_dim, seed, deviation);
  for (size_t i = 0; i < q_.size(); i += shape_.head_dim) q_[i] = kQueryLevel;
  for (size_t i = 0; i < q_.size(); ++i) {
    q_[i] *= shape.factor(static_cast<int>(i / (shape.heads * shape_.head_dim)));
  }
  k_ = RandomTensor(shape.rows * KvWidth(), seed + 1);
  for (size_t i = 0; i < k_.size(); i += shape_.head_dim) {
    k_[i] = shape.level(static_cast<int>(i / KvWidth())) / kQueryLevel / std::numbers::ln2_v<float>;
  }
  const int64_t width = int64_t{shape.heads} * shape_.head_dim;
  for (int i = 0; i < Tiles(); ++i) {
    const auto tile = q_.begin() + i * kTileRows * width;
    std::rotate(tile, tile + shape.rotation * width, tile + kTileRows * width);
  }
  q_ = Rounded(q_);
  k_ = Rounded(k_);
  v_ = Rounded(RandomTensor(shape.rows * KvWidth(), seed + 2));
  WeighKeys();
  PackRows();
  PackContext();
  std::vector<Tile> tiles;
  for (int i = 0; i < Tiles(); ++i) {
    const int rows = std::min(kTileRows, shape.rows - i * kTileRows);
    tiles.push_back(
        {.context = context_.data(),
         .context_log_weights = log_weights_.empty() ? nullptr : device_log_weights_.data(),
         .context_rows = shape.rows,
         .context_capacity = Capacity(),
         .groups = (rows + kGroupRows - 1) / kGroupRows,
         .first_row = i * kTileRows,
         .encode_rows = rows});
  }
  tiles_ = DeviceTiles(tiles);
}

std::vector<uint16_t> EncodeProblem::Launch(int first, int count, Stream stream,
                                            int multiprocessors) const {
  const int64_t width = int64_t{shape_.heads} * shape_.head_dim;
  const DeviceArray<uint16_t> attended(Rows() * width);
  const int64_t row = int64_t{first} * kTileRows;
  const EncodeAttentionParams params = {
      .tiles = tiles_.data() + first,
      .q = rows_.data() + row * Stride(),
      .q_stride = Stride(),
      .attended = attended.data() + row * width,
      .tile_count = count,
      .shape = {.heads = shape_.heads, .kv_heads = shape_.kv_heads, .head_dim = shape_.head_dim},
      .layer = kLayer,
      .multiprocessors = multiprocessors};
  EXPECT_TRUE(ValidateEncodeAttention(params).ok()) << ValidateEncodeAttention(params);
  ExpectSuccess(LaunchEncodeAttention(params, stream), "launching attention");
  return attended.ToHost(stream);
}

std::vector<float> EncodeProblem::Reference(int first, int count) const {
  const int64_t n = shape_.rows;
  std::vector<float> keys(shape_.kv_heads * PackedKeysSize(n, shape_.head_dim));
  std::vector<float> values(shape_.kv_heads * ValuesSize(n, shape_.head_dim));
  reference::AppendKv({.k = k_.data(),
                       .v = v_.data(),
                       .keys = keys.data(),
                       .values = values.data(),
                       .n = n,
                       .capacity = n,
                       .kv_heads = shape_.kv_heads,
                       .head_dim = shape_.head_dim,
                       .kv_stride = KvWidth()});
  const std::vector<float> log_weights = NaturalLogWeights(log_weights_);
  const int64_t width = int64_t{shape_.heads} * shape_.head_dim;
  const int64_t row = int64_t{first} * kTileRows;
  const int64_t rows = UsedRows(first, count);
  std::vector<float> out(rows * width);
  reference::SharedContextAttention(
      {.q = q_.data() + row * width,
       .out = out.data(),
       .context_keys = keys.data(),
       .context_values = values.data(),
       .context_log_weights = log_weights.empty() ? nullptr : log_weights.data(),
       .rows = rows,
       .heads = shape_.heads,
       .kv_heads = shape_.kv_heads,
       .head_dim = shape_.head_dim,
       .context_rows = n,
       .context_capacity = n,
       .q_stride = width,
       .out_stride = width,
       .scale = std::numbers::ln2_v<float>});
  return out;
}

void EncodeProblem::WeighKeys() {
  if (!shape_.log_weight) return;
  for (int head = 0; head < shape_.kv_heads; ++head) {
    for (int key = 0; key < shape_.rows; ++key) log_weights_.push_back(shape_.log_weight(key));
  }
  for (int key = 0; key < shape_.rows; ++key) {
    if (log_weights_[key] != kNoKeyLogWeight) continue;
    std::fill_n(k_.begin() + key * KvWidth(), KvWidth(), 0.0f);
    std::fill_n(v_.begin() + key * KvWidth(), KvWidth(), 0.0f);
  }
  device_log_weights_ = DeviceArray<float>(
      PackLogWeights(log_weights_, shape_.kv_heads, Capacity(), kLayer, kLayers));
}

void EncodeProblem::PackRows() {
  const int64_t width = int64_t{shape_.heads} * shape_.head_dim;
  std::vector<uint16_t> rows(Rows() * Stride(), kNanBf16);
  for (int64_t row = 0; row < Rows(); ++row) {
    for (int64_t i = 0; i < width; ++i) rows[row * Stride() + i] = ToBf16(q_[row * width + i]);
  }
  rows_ = DeviceArray<uint16_t>(rows);
}

void EncodeProblem::PackContext() {
  const int64_t layer_size = ContextLayerSize(Capacity(), shape_.kv_heads, shape_.head_dim);
  std::vector<uint16_t> packed(kLayers * layer_size, kNanBf16);
  const int64_t blocks = ContextKeyBlocks(shape_.rows);
  for (int64_t key = 0; key < blocks * kKeyBlockKeys; ++key) {
    for (int64_t h = 0; h < shape_.kv_heads; ++h) {
      uint16_t* block =
          packed.data() + ContextKeyBlockAt(kLayer, h, key / kKeyBlockKeys, Capacity(),
                                            shape_.kv_heads, shape_.head_dim);
      const auto in_block = static_cast<int>(key % kKeyBlockKeys);
      for (int d = 0; d < shape_.head_dim; ++d) {
        const int64_t at = key * KvWidth() + h * shape_.head_dim + d;
        const bool is_row = key < shape_.rows;
        if (is_row) block[KeyBlockKeyAt(in_block, d, shape_.head_dim)] = ToBf16(k_[at]);
        block[KeyBlockValueAt(in_block, d, shape_.head_dim)] = is_row ? ToBf16(v_[at]) : 0;
      }
    }
  }
  context_ = DeviceArray<uint16_t>(packed);
}

}  // namespace chorale::kernels::cuda
