// Attention of tiles of rows to their contexts and, for rows of paths, to the visible positions of
// the path's buffer: kernels/ops/shared_context_attention.h on a GPU, for every phase.
//
// Keys are divided into KV splits (layout/kv_split.h). The output is one partial for each split, or
// for all of them: an online-softmax state (m, l, o) with scores in units of log 2 and o not
// divided by l. The layer kernel combines the partials (layer/combine_splits.cuh). Where one block
// attends to all splits, it can also divide by l, and store attention itself.
//
// A split is summed plainly: weights are 2^score, and no maximum is subtracted. If a row's sum then
// leaves the range in which nothing that counts is lost (shifted_softmax.cuh), the split is summed
// again for that row, relative to its maximum. Splits of the buffers subtract maxima always.
//
// There are three kernels with the same bits: one by mma, and for heads of 32 and 64, on devices
// with wgmma, one for each distribution of the splits.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_H_
#define CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// How splits are distributed over blocks. Both give the same bits.
enum class KvSplit {
  kSingle,  // one block attends to all splits and combines them: one partial
  kSplit,   // one block for each split: one partial for each
};

struct AttentionParams {
  const Tile* tiles = nullptr;  // [tiles], device
  const uint16_t* q = nullptr;  // [tiles, 64, H, Dh] bf16, device, times log2(e) Dh^-0.5
  int32_t q_stride = 0;         // elements from a row's q to the next one's; 0: H Dh
  float* partial_o = nullptr;   // [num_splits, tiles, 64, H, Dh] f32, device
  float* partial_ml = nullptr;  // [num_splits, tiles, 64, H, 2] f32, device: m and l
  // [tiles, 64, H, Dh] bf16, device: attention instead of partials, with kSingle. Or null.
  uint16_t* attended = nullptr;
  int32_t tile_count = 0;
  ModelShape shape;        // H, Hkv, Dh
  int32_t layer = 0;       // of the tiles' contexts and buffers
  int32_t num_splits = 0;  // of partial_o and partial_ml; at least 1
  KvSplit split = KvSplit::kSingle;
  int32_t multiprocessors = 1;  // of the device; affects speed alone
  bool use_wgmma = false;       // REQUIRES: HasWgmmaAttention
  // Whether the context of some tile has weights (Tile::context_log_weights). Kernels without them
  // are faster by up to 5 %.
  bool weighted = false;
};

// Whether there are kernels with wgmma for heads of this width on a device of this compute
// capability.
bool HasWgmmaAttention(int32_t head_dim, int compute_major);

// InvalidArgument naming the field, if the kernels do not support the heads of `shape`: Dh has to
// be 16, 32, 64 or 128.
absl::Status ValidateHeads(const ModelShape& shape);

// InvalidArgument naming the field. Cannot check that with kSplit, `num_splits` is at least
// KvSplits of every tile's context: the caller ensures it.
absl::Status ValidateAttention(const AttentionParams& params);

// kSplit if so few blocks, one for each head of each tile, do not fill the device's
// multiprocessors, and num_splits suffices for the largest context. More blocks would take longer
// to write and to combine partials than the splits save.
KvSplit ChooseSplit(int64_t tiles, const ModelShape& shape, int64_t largest_context_rows,
                    int64_t num_splits, int multiprocessors, bool use_wgmma);

// Writes nothing for groups of rows that are not in use. REQUIRES: ValidateAttention(params).ok().
ErrorCode LaunchAttention(const AttentionParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_ATTENTION_H_
