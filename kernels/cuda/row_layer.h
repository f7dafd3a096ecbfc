// What a layer does to each row by itself, all in one kernel, so that a row's activations stay on
// the chip from one attention to the next:
//
//   finish   x = LN2(x + Wo merge(states of attention))
//            x = LN3(x + W2 gelu(W1 x + b1) + b2)
//   leave    x = LN1(x + P x)
//            q = Wq x for attention; K = Wk x and V = Wv x for context or buffer, see tile.h
//
// Between two attentions a row finishes layer l and leaves layer l + 1. The first launch only
// leaves, the last only finishes.
//
// Matrix operands are bfloat16, sums and the residual x are float32. A row's result does not depend
// on which other rows are computed with it, nor on how many rows a block takes.
#ifndef CHORALE_KERNELS_CUDA_ROW_LAYER_H_
#define CHORALE_KERNELS_CUDA_ROW_LAYER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tile.h"

namespace chorale::kernels::cuda {

enum class RowStages { kLeave, kFinish, kFinishAndLeave };

inline constexpr int64_t kLargestWidth = 512;

// Device memory. Slabs as layout.h describes them, in this order:
//   for o in slabs of D, for i in slabs of H Dh: Wo
//   for h in slabs of Dff: (for i in slabs of D: W1 of outputs h), (for o in slabs of D: W2 of
//   inputs h)
struct FinishWeights {
  const uint16_t* slabs = nullptr;  // bf16
  const float* gamma2 = nullptr;    // [D], and so the next three
  const float* beta2 = nullptr;
  const float* gamma3 = nullptr;
  const float* beta3 = nullptr;
  const float* b1 = nullptr;  // [128 Slabs(Dff)], zero beyond Dff
  const float* b2 = nullptr;  // [D]
};

//   for o in slabs of D, for i in slabs of D: P
//   for o in slabs of (H + 2 Hkv) Dh, for i in slabs of D: Wq over Wk over Wv
struct LeaveWeights {
  const uint16_t* slabs = nullptr;  // bf16; Wq is multiplied by log2(e) Dh^-0.5
  const float* gamma1 = nullptr;    // [D]
  const float* beta1 = nullptr;     // [D]
};

constexpr int64_t FinishSlabs(int64_t width, int64_t attention_width, int64_t hidden) {
  return Slabs(width) * Slabs(attention_width) + 2 * Slabs(hidden) * Slabs(width);
}
constexpr int64_t LeaveSlabs(int64_t width, int64_t projected) {
  return Slabs(width) * Slabs(width) + Slabs(projected) * Slabs(width);
}

struct RowLayerParams {
  const Tile* tiles = nullptr;         // [tiles], device
  float* x = nullptr;                  // [tiles, 64, D] f32, device, updated
  const float* chunk_o = nullptr;      // as in AttentionParams; read when finishing
  const float* chunk_state = nullptr;  // likewise
  uint16_t* q = nullptr;               // [tiles, 64, H, Dh] bf16, device; written when leaving
  FinishWeights finish;
  LeaveWeights leave;
  int32_t tile_count = 0;
  int32_t width = 0;     // D, a multiple of 8, at most kLargestWidth
  int32_t heads = 0;     // H
  int32_t kv_heads = 0;  // Hkv
  int32_t head_dim = 0;  // Dh as the kernels have it: D may be less than H Dh
  int32_t hidden = 0;    // Dff
  int32_t layer = 0;     // that is left: where K and V go
  ChunkSplit split = ChunkSplit::kTogether;
  float epsilon = 0;
  RowStages stages = RowStages::kFinishAndLeave;
};

// InvalidArgument naming the field.
absl::Status ValidateRowLayer(const RowLayerParams& params);

// What one block of threads takes. It changes the speed of a launch, and no bit of its result.
struct RowBlock {
  int rows = 0;    // 8, 16, 32 or, for D up to 256, 64
  int stages = 0;  // room for slabs of weights: 2, 3 or 4, one in use and the others on their way
};

// Shared memory that a block needs.
int RowLayerSharedBytes(const RowLayerParams& params, const RowBlock& block);

// As many rows as leave no multiprocessor idle, since every block reads all weights, and then as
// many stages as there is shared memory for. Eight only where they leave half of them idle: the
// other half of a tensor-core tile is wasted, but there is half as much to merge.
// ResourceExhausted, with the numbers, when there is too little for the smallest block. Looks at
// shapes and tile_count alone.
absl::StatusOr<RowBlock> ChooseRowBlock(const RowLayerParams& params, int multiprocessors,
                                        int shared_bytes);

// REQUIRES: ValidateRowLayer(params).ok(), and the device has the block's shared memory.
ErrorCode LaunchRowLayer(const RowLayerParams& params, const RowBlock& block, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_LAYER_H_
