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
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_H_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

enum class RowStages { kLeave, kFinish, kFinishAndLeave };

inline constexpr int64_t kLargestWidth = 512;

// Device memory. Slabs as layout.h describes them: all of Wo, then W1, then W2, each in the order
// for o in slabs of outputs, for i in slabs of inputs.
struct FinishWeights {
  const uint16_t* slabs = nullptr;     // bf16
  const uint16_t* quarters = nullptr;  // the same, or null: see kWarpgroupComputeMajor
  // gamma2, beta2, gamma3, beta3, b2 [D] each, then b1 [128 Slabs(Dff)], zero beyond Dff.
  const float* vectors = nullptr;
};

// All of P, then Wq over Wk over Wv as one matrix.
struct LeaveWeights {
  const uint16_t* slabs = nullptr;     // bf16; Wq is multiplied by log2(e) Dh^-0.5
  const uint16_t* quarters = nullptr;  // as above
  const float* vectors = nullptr;      // gamma1, beta1 [D] each
};

struct LayerWeights {
  LeaveWeights leave;
  FinishWeights finish;
};

// The compute capability whose multiprocessors have products of a warpgroup: no other has. There,
// slabs may also be given in quarters (weights.h, PackQuarters), and blocks of 16 rows and more
// take these, with the same bits.
inline constexpr int kWarpgroupComputeMajor = 9;

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

// InvalidArgument naming the field: of shapes alone, and of all fields.
absl::Status ValidateRowShapes(const RowLayerParams& params);
absl::Status ValidateRowLayer(const RowLayerParams& params);

// Shared memory that a block of threads needs for 8, 16, 32 or 64 rows.
int RowLayerSharedBytes(const RowLayerParams& params, int block_rows);

// How many rows a block of threads takes, which changes the speed of a launch and no bit of its
// result: as many as leave no multiprocessor idle, since every block reads all weights, and as
// there is shared memory for. Eight only where they leave half of the multiprocessors idle and
// there are no products of warpgroups: the other half of a tensor-core tile is wasted, but there is
// half as much to merge. ResourceExhausted, with the numbers, when there is too little shared
// memory for the smallest block. Looks at shapes, at tile_count and at whether there are quarters.
absl::StatusOr<int> ChooseBlockRows(const RowLayerParams& params, int multiprocessors,
                                    int shared_bytes);

// Whether a launch takes products of warpgroups: quarters are given, and a block has at least 16
// rows, and room for them and for weights on their way.
bool TakesWarpgroups(const RowLayerParams& params, int block_rows, int shared_bytes);

// REQUIRES: ValidateRowLayer(params).ok(), block_rows is 8, 16, 32 or 64, a block of the device has
// shared_bytes of shared memory, which are enough, and quarters are null where there are no
// products of warpgroups.
ErrorCode LaunchRowLayer(const RowLayerParams& params, int block_rows, int shared_bytes,
                         Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_H_
