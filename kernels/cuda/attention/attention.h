// Attention of tiles of rows to their shared contexts and, for rows of paths, to the first
// positions of the path's own buffer: kernels/ops/shared_context_attention.h on a GPU, for every
// phase.
//
// The path's buffer keys follow the context into the same online-softmax state. What leaves the
// kernel are the states of splits (layout.h), which the row kernel merges (partial_ml.cuh):
// scores are in units of log 2, and o is unnormalised. This form stays between the two kernels.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_H_
#define CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// How the splits of a context are shared out. Both give the same bits.
enum class KvSplit {
  kSingle,  // one block attends to all splits and combines them: one partial
  kSplit,   // a block for each split: a partial each
};

struct AttentionParams {
  const Tile* tiles = nullptr;  // [tiles], device
  const uint16_t* q = nullptr;  // [tiles, 64, H, Dh] bf16, device, times log2(e) Dh^-0.5
  float* partial_o = nullptr;   // [num_splits, tiles, 64, H, Dh] f32, device
  float* partial_ml = nullptr;  // [num_splits, tiles, 64, H, 2] f32, device: m and l
  int32_t tile_count = 0;
  int32_t heads = 0;       // H
  int32_t kv_heads = 0;    // Hkv, divides H
  int32_t head_dim = 0;    // Dh: 16, 32, 64 or 128
  int32_t layer = 0;       // of the tiles' contexts and buffers
  int32_t num_splits = 0;  // room for that many splits
  KvSplit split = KvSplit::kSingle;
  int32_t multiprocessors = 1;  // of the device: a matter of speed alone
};

// What the kernels ask of heads: InvalidArgument naming the field. REQUIRES: kv_heads > 0.
absl::Status ValidateHeads(int32_t heads, int32_t kv_heads, int32_t head_dim);

// InvalidArgument naming the field. With kSplit, `num_splits` must be at least ContextSplits of
// every tile's context, which only the caller knows.
absl::Status ValidateAttention(const AttentionParams& params);

// kSplit where there are too few tiles to fill the device's multiprocessors, and room for the
// splits of the largest context.
KvSplit ChooseSplit(int64_t tiles, int64_t heads, int64_t largest_context_rows, int64_t num_splits,
                    int multiprocessors);

// Groups of rows that are not in use are skipped: nothing is written for them.
// REQUIRES: ValidateAttention(params).ok().
ErrorCode LaunchAttention(const AttentionParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_H_
