// The stages of the model on tiles of rows: each is one or two launches on the device's stream.
// What a phase (encode, decode, teacher forcing, prediction) does reads as a list of these.
//
// A row's result never depends on which other rows are launched with it. Errors are kept by the
// device (Device::Check).
#ifndef CHORALE_ENGINE_BACKEND_CUDA_FORWARD_H_
#define CHORALE_ENGINE_BACKEND_CUDA_FORWARD_H_

#include <cstdint>

#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/model.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

// Tiles and their rows, all in device memory.
struct TileSet {
  kernels::cuda::Tile* tiles = nullptr;      // [count]
  kernels::cuda::PathTile* paths = nullptr;  // [count]; null for rows that are not of paths
  float* x = nullptr;                        // [count, 64, D] f32
  uint16_t* q = nullptr;                     // [count, 64, H Dh] bf16
  int32_t count = 0;
  int64_t largest_context = 0;  // rows

  TileSet Part(const KernelShape& shape, int32_t first, int32_t part_count) const;
};

// Bytes of x and q of one tile.
int64_t TileRowBytes(const KernelShape& shape);

// The partial results of split attention between two kernels lie in the part of the launch
// workspace that is handed to it. Immutable.
class Forward {
 public:
  // REQUIRES: states.bytes >= PartialBytes(model.shape()).
  Forward(const DeviceModel& model, const LaunchWorkspace& states);

  // Bytes of the partial result of one split of one tile.
  static int64_t PartialBytes(const KernelShape& shape);
  // Partial results of each tile of a launch: 1, or one for each split of the largest context.
  int64_t SplitsOfTile(int64_t tiles, int64_t largest_context) const;

  // x of targets and buffer tokens; of rows [first_row, first_row + rows) of `encodings`.
  void EmbedPaths(const TileSet& set) const;
  void EmbedRows(const TileSet& set, const float* encodings, int64_t rows, const float* offset,
                 const float* y) const;

  // x = LN1(x + P x); Q, and K and V into the context or the buffers. Once, for layer 0: later
  // layers have it done by AttentionAndMlp of the layer before.
  void PreAttention(int64_t layer, const TileSet& set) const;
  // Attention, output projection and MLP of `layer`. The kernel of the MLP goes on with
  // PreAttention(layer + 1), unless `layer` is the last.
  void AttentionAndMlp(int64_t layer, const TileSet& set) const;

  // Of the targets of paths: values and log-densities. Of other rows: mixtures [count, 64, 3, M].
  void Head(const TileSet& set, float* mixtures) const;

 private:
  struct States {
    kernels::cuda::KvSplit split = kernels::cuda::KvSplit::kSingle;
    int32_t num_splits = 1;
    float* o = nullptr;
    float* state = nullptr;
  };

  States Attend(int64_t layer, const TileSet& set) const;
  // `layer`: as in PreAttention and AttentionAndMlp.
  void LaunchLayer(kernels::cuda::LayerPart part, int64_t layer, const TileSet& set,
                   const States& states) const;

  const DeviceModel& model_;
  Device& device_;
  char* const states_;
  const int64_t max_partial_tiles_;  // for whose partial results there is room, at least 1
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_FORWARD_H_
