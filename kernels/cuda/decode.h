// Autoregressive decode in one kernel: every layer, the head and the draw, for as many steps as the
// host asks for.
//
// A path's rows never meet those of another path, so a block of threads takes its rows through all
// of it by itself: x stays in shared memory, and the only thing that comes from outside is one long
// stream of weights and of the context's keys and values, in the order in which they are needed
// (stage_ring.cuh). Nothing is synchronised between blocks.
//
// A row's result has the same bits as from the kernels that take one layer each (attention.h,
// row_layer.h, head.h): every sum is taken in the same order. Which of the two ways a decode takes
// is therefore a matter of speed alone. Few rows with a long context should be faster layer by
// layer, where all multiprocessors share each context.
#ifndef CHORALE_KERNELS_CUDA_DECODE_H_
#define CHORALE_KERNELS_CUDA_DECODE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/head.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/path_tile.h"
#include "kernels/cuda/row_layer.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tile.h"

namespace chorale::kernels::cuda {

// With quarters.
struct LayerWeights {
  LeaveWeights leave;
  FinishWeights finish;
};

struct DecodeParams {
  // [tiles], device: as they are before the first step, and not changed. A tile takes steps_left
  // steps, or as many as it has targets left.
  const Tile* tiles = nullptr;
  const PathTile* paths = nullptr;
  const LayerWeights* layers = nullptr;  // [L], device
  const float* offsets = nullptr;        // [2 + K, D] f32, device: target, context, buffer places
  const float* y_weight = nullptr;       // [D] f32, device
  HeadWeights head;
  int32_t tile_count = 0;
  int32_t layer_count = 0;  // L
  int32_t width = 0;        // D, a multiple of 8, at most kLargestWidth
  int32_t heads = 0;        // H
  int32_t kv_heads = 0;     // Hkv
  int32_t head_dim = 0;     // Dh as the kernels have it
  int32_t hidden = 0;       // Dff
  int32_t components = 0;   // M
  int32_t places = 0;       // K: a token at place i gets offset 2 + i mod K
  float epsilon = 0;
  float std_min = 0;
  float std_max = 0;
};

// How a decode is run: as is thought best, or always in one of the two ways. For tests and
// measurements; a process starts with kBest.
enum class DecodeWay { kBest, kLayerByLayer, kAtOnce };
void SetDecodeWay(DecodeWay way);
DecodeWay ChosenDecodeWay();

// InvalidArgument naming the field.
absl::Status ValidateDecode(const DecodeParams& params);

// What is to be decoded together.
struct DecodeCrowd {
  int64_t tiles_with[kTileGroups + 1] = {};  // tiles with so many groups in use
  int64_t largest_context = 0;               // rows
  int64_t steps = 0;                         // the most that a tile takes

  // That have anything to do.
  int64_t Blocks(int block_rows) const;
};

// How many rows a block takes, 16, 32 or 64: the fewest with which all blocks run at once, since
// each block reads all weights; but no more than make blocks fewer. 0 where a decode is to go layer
// by layer: where the model's shape is not one for this kernel, or its rows do not fit in shared
// memory, or that is faster, or chosen. Looks at shapes alone.
int ChooseDecodeRows(const DecodeParams& params, const DecodeCrowd& crowd, int multiprocessors,
                     int shared_bytes);

// Stages of the ring (stage_ring.cuh) that a block consumes in so many steps with such a context.
int64_t DecodeStages(const DecodeParams& params, int64_t context_rows, int64_t steps);
inline constexpr int64_t kMostDecodeStages = int64_t{1} << 27;

// REQUIRES: ValidateDecode(params).ok(), no tile takes more than kMostDecodeStages, block_rows is
// what ChooseDecodeRows gave for the device's shared_bytes, or fewer, and the device has products
// of warpgroups.
ErrorCode LaunchDecode(const DecodeParams& params, int block_rows, int shared_bytes, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_DECODE_H_
