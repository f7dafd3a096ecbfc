// Attention of the rows of a context that is being encoded to that context, by wgmma (compute
// capability 9.0). LaunchAttention computes the same, for all phases and devices, in other bits.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_ENCODE_ATTENTION_H_
#define CHORALE_KERNELS_CUDA_ATTENTION_ENCODE_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

inline constexpr int kEncodeBlockTiles = 3;  // most tiles of a block

struct EncodeAttentionParams {
  // [tiles], device: of one context that is being encoded, with encode_rows.
  const Tile* tiles = nullptr;
  // [tiles, 64] rows, device. Each begins with q [H, Dh] bf16, times log2(e) Dh^-0.5.
  const uint16_t* q = nullptr;
  int64_t q_stride = 0;          // elements from a row's q to the next one's, a multiple of 8
  uint16_t* attended = nullptr;  // [tiles, 64, H, Dh] bf16, device
  int32_t tile_count = 0;
  ModelShape shape;             // H, Hkv, and Dh: 32 or 64
  int32_t layer = 0;            // of the context
  int32_t multiprocessors = 1;  // of the device; affects speed alone
};

// Blocks of each head: the first take three tiles each, the others `other_tiles` each. A
// multiprocessor holds one block, so blocks run in rounds; a block of three tiles takes less than
// twice as long as a block of one. Chosen for the shortest time of all rounds.
struct EncodeBlocks {
  int32_t of_three = 0;
  int32_t others = 0;
  int32_t other_tiles = 1;  // 1 or 2; the last block may have fewer
};
EncodeBlocks ChooseEncodeBlocks(int32_t tile_count, int32_t heads, int32_t multiprocessors);

// Returns the tiles of a launch whose blocks of three tiles fill whole rounds, as few rounds as
// take about a tile for each multiprocessor, or more.
int64_t EncodeLaunchTiles(int32_t heads, int32_t multiprocessors);

// InvalidArgument naming the field. Cannot check that all tiles are of one context, and that there
// is at least one row in it: the caller ensures both.
absl::Status ValidateEncodeAttention(const EncodeAttentionParams& params);

// Attends to all rows of the context, whose K and V an earlier launch has stored. All 64 rows of a
// tile are computed, but what is stored for rows that are not in use means nothing. A row's bits
// depend on its q and the context alone. The time of a block more than doubles where a row has
// scores q k beyond about 55, or all below -70: its weights are then computed in a second sweep.
// REQUIRES: ValidateEncodeAttention(params).ok(), and HasWgmmaAttention.
ErrorCode LaunchEncodeAttention(const EncodeAttentionParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_ENCODE_ATTENTION_H_
