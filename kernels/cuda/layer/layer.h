// All of a transformer layer except attention, in one kernel, so that a row's activations stay on
// the chip from one attention to the next:
//
//   post-attention   x = LN2(x + Wo attention)                          output projection
//                    x = LN3(x + W2 gelu(W1 x + b1) + b2)               MLP
//   pre-attention    x = LN1(x + P x)                                   folded feature attention
//                    q = Wq x; K = Wk x, V = Wv x into context or buffer (tile.h)   QKV projection
//
// Between two attentions, one launch does the post-attention of layer l and the pre-attention of
// layer l + 1. The first launch of a forward pass does pre-attention alone, the last one
// post-attention alone.
//
// Matrix operands are bfloat16; sums and the residual x are float32. A row's result does not depend
// on which other rows are computed with it, nor on how many rows a block takes.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_H_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/layout/weight_tiles.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

enum class LayerPart { kPreAttention, kPostAttention, kPostThenPreAttention };

inline constexpr int64_t kLargestWidth = 512;

// Device memory. Weight tiles (layout/weight_tiles.h) of Wo, then W1, then W2, each
// [output tile][input tile].
//
// For a device with wgmma, a caller may also pass the weights as wgmma tiles (PackWgmmaTiles,
// PackWgmmaColumnTiles). Blocks of 16 rows and more then use the former, and launches of whole
// tiles the latter, with the same bits.
struct PostAttentionWeights {
  const uint16_t* weight_tiles = nullptr;        // bf16
  const uint16_t* wgmma_tiles = nullptr;         // bf16, or null: see kWgmmaComputeMajor
  const uint16_t* wgmma_column_tiles = nullptr;  // likewise
  // gamma2, beta2, gamma3, beta3, b2 [D] each, then b1 [128 WeightTiles(Dff)], zero beyond Dff.
  const float* vectors = nullptr;
};

// Likewise of P, then of Wq over Wk over Wv as one matrix.
struct PreAttentionWeights {
  const uint16_t* weight_tiles = nullptr;        // bf16; Wq is multiplied by log2(e) Dh^-0.5
  const uint16_t* wgmma_tiles = nullptr;         // as above
  const uint16_t* wgmma_column_tiles = nullptr;  // as above
  const float* vectors = nullptr;                // gamma1, beta1 [D] each
};

struct LayerWeights {
  PreAttentionWeights pre_attention;
  PostAttentionWeights post_attention;
};

constexpr int64_t PostAttentionTiles(const ModelShape& shape) {
  return WeightTiles(shape.width) * WeightTiles(shape.query_width()) +
         2 * WeightTiles(shape.hidden) * WeightTiles(shape.width);
}
constexpr int64_t PreAttentionTiles(const ModelShape& shape) {
  return WeightTiles(shape.width) * WeightTiles(shape.width) +
         WeightTiles(shape.qkv_width()) * WeightTiles(shape.width);
}

struct LayerParams {
  const Tile* tiles = nullptr;  // [tiles], device
  float* x = nullptr;           // [tiles, 64, D] f32, device, updated
  // What post-attention reads: partials of attention as in AttentionParams, which it combines, or
  // attention itself, [tiles, 64, H, Dh] bf16, device, if that is not null.
  const float* partial_o = nullptr;
  const float* partial_ml = nullptr;
  const uint16_t* attended = nullptr;
  uint16_t* q = nullptr;  // [tiles, 64, H, Dh] bf16, device; written by pre-attention
  PostAttentionWeights post_attention;
  PreAttentionWeights pre_attention;
  int32_t tile_count = 0;
  ModelShape shape;      // H, Hkv, Dh, Dff, and D: a multiple of 8, at most kLargestWidth
  int32_t kv_layer = 0;  // layer whose K and V pre-attention writes
  KvSplit split = KvSplit::kSingle;
  float epsilon = 0;
  LayerPart part = LayerPart::kPostThenPreAttention;
};

// InvalidArgument naming the field.
absl::Status ValidateLayer(const LayerParams& params);

// Bytes of shared memory of a block of 8, 16, 32 or 64 rows without wgmma.
int LayerSharedBytes(const ModelShape& shape, int block_rows);

// Rows of a block, which affect speed but no bit of the result. Every block reads all weights, so
// more is better, until multiprocessors idle or shared memory runs out. Eight rows only where 16
// would leave half of the multiprocessors idle and wgmma is not used: that wastes half of each
// fragment, but a block then combines half as many partials. Whole tiles where blocks of 16 rows
// would not run all at once, if there is a kernel for them (UsesTileKernel). Depends on shapes,
// tile_count and which wgmma tiles there are. ResourceExhausted, with the numbers, if even the
// smallest block exceeds shared_bytes.
absl::StatusOr<int> ChooseBlockRows(const LayerParams& params, int multiprocessors,
                                    int shared_bytes);

// Whether a launch uses wgmma with rows in shared memory: there are wgmma tiles, a block has at
// least 16 rows, and shared_bytes hold them and a weight ring.
bool UsesWgmma(const LayerParams& params, int block_rows, int shared_bytes);

// Whether there is a kernel for whole tiles of such a model: D and H Dh are at most 128, and Dff is
// more.
bool HasTileKernel(const ModelShape& shape);

// Whether a launch uses wgmma with rows in registers, in preference to that: HasTileKernel, there
// are wgmma column tiles, attention needs no combining, a block has a tile, and shared_bytes hold
// the hidden layer and a weight ring.
bool UsesTileKernel(const LayerParams& params, int block_rows, int shared_bytes);

// REQUIRES: ValidateLayer(params).ok(); block_rows is 8, 16, 32 or 64; a block of the device has
// shared_bytes of shared memory, at least LayerSharedBytes; wgmma tiles are
// null if the device has no wgmma.
ErrorCode LaunchLayer(const LayerParams& params, int block_rows, int shared_bytes, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_H_
