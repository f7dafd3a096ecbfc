// Random tiles with contexts and buffers on the device, and their attention by the float64
// reference. Padding, invisible keys, other layers and outputs are NaN.
#ifndef CHORALE_TESTS_KERNELS_CUDA_TILE_PROBLEM_H_
#define CHORALE_TESTS_KERNELS_CUDA_TILE_PROBLEM_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "tests/kernels/cuda/device_test.h"

namespace chorale::kernels::cuda {

struct TileShape {
  int context_rows = 0;
  // The rows that the memory of the context is laid out for; 0: as many. Key blocks behind its rows
  // are NaN.
  int context_capacity = 0;
  int groups = 4;
  int paths = 0;  // 0: no buffer
  int capacity = 0;
  int visible_query = 0;
  int visible_buffer = 0;
  // Mean scores of context keys and of buffer keys.
  float context_score = 0;
  float buffer_score = 0;
  bool shares_context = false;  // with the tile before, of as many rows
  int infinite_path = -1;       // whose values in the buffer are infinite; -1: none
  // The context keys have weights from 2^-largest_log_weight to 2^largest_log_weight. Below 0:
  // none.
  float largest_log_weight = -1;
  // Keys from first_padding on that are padding keys (kNoKeyLogWeight).
  int first_padding = 0;
  int padding_keys = 0;

  int Capacity() const { return std::max(context_rows, context_capacity); }
};

struct ProblemShape {
  ModelShape model = {.heads = 2, .kv_heads = 2, .head_dim = 32};
  float score_deviation = 1;  // roughly
  std::vector<TileShape> tiles;
  bool use_wgmma = false;
  int multiprocessors = 1;  // 1: with wgmma, blocks of two tiles
};

// Attention of every row of a problem's tiles. Rows without a path, or not in use, are not
// compared.
struct Attended {
  std::vector<float> out;  // [tiles, 64, H, Dh]
  std::vector<float> lse;  // [tiles, 64, H], natural
};

class TileProblem {
 public:
  static constexpr int kLayers = 2;
  static constexpr int kLayer = 1;  // the one that is attended to

  TileProblem(const ProblemShape& shape, uint32_t seed);

  const ProblemShape& shape() const { return shape_; }
  int tile_count() const { return static_cast<int>(shape_.tiles.size()); }
  bool weighted() const;  // whether the context of a tile has weights
  int64_t rows() const { return 64 * static_cast<int64_t>(tile_count()); }
  const DeviceArray<Tile>& tiles() const { return device_tiles_; }

  // Whether a row of a tile is in use.
  bool Counts(int64_t row) const;

  Attended Reference() const;

  // The partials of the attention kernel.
  struct States {
    DeviceArray<float> partial_o;
    DeviceArray<float> partial_ml;
    int num_splits = 0;
    KvSplit split = KvSplit::kSingle;
  };
  // Validates the parameters and launches with outputs of NaN.
  States Launch(KvSplit split, Stream stream) const;

  // The same by a kernel that divides by l itself (AttentionParams::attended), bf16 as
  // [tiles, 64, H, Dh]; q lies in rows of `q_stride` elements, behind which there is NaN.
  DeviceArray<uint16_t> LaunchAttended(int q_stride, Stream stream) const;

  // The partials combined on the host, in float64. NaN for rows that are not in use.
  Attended Combine(const States& states, Stream stream) const;

 private:
  // K and V in float32, exactly representable in bf16.
  struct Keys {
    std::vector<float> k;  // [n, Hkv, Dh]
    std::vector<float> v;
    std::vector<float> log_weights;  // [Hkv, n], in units of log 2; empty: none
  };
  void WeighKeys(const TileShape& tile, uint32_t seed, Keys& keys) const;
  Keys RandomKeys(int n, float score, uint32_t seed) const;
  std::vector<uint16_t> PackContext(const Keys& keys, const TileShape& tile) const;
  std::vector<uint16_t> PackBuffer(const std::vector<Keys>& paths, const TileShape& tile) const;

  ProblemShape shape_;
  std::vector<float> q_;                    // [tiles, 64, H, Dh]
  std::vector<Keys> contexts_;              // [tiles]
  std::vector<std::vector<Keys>> buffers_;  // [tiles][paths]

  DeviceArray<uint16_t> device_q_;
  std::vector<DeviceArray<uint16_t>> device_contexts_;
  std::vector<DeviceArray<float>> device_log_weights_;  // of each of these contexts
  std::vector<DeviceArray<uint16_t>> device_buffers_;
  DeviceArray<Tile> device_tiles_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_TILE_PROBLEM_H_
