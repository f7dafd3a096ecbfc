// The layout of the launch workspace while tiles of one model are decoded.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DECODE_WORKSPACE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DECODE_WORKSPACE_H_

#include <cstdint>

#include "base/arena_layout.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/model.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

// The maximum number of steps whose outputs fit into the workspace. Tiles that keep mixtures have
// fewer.
inline constexpr int64_t kMostBatchSteps = 32;

// Tile and PathTile of all tiles of a launch. They are adjacent, so that one copy uploads both.
struct LaunchTilesLayout {
  explicit LaunchTilesLayout(int64_t count);

  ArenaArray<kernels::cuda::Tile> tiles;      // [count]
  ArenaArray<kernels::cuda::PathTile> paths;  // [count]
  int64_t bytes = 0;
};

// All addresses are device memory.
class DecodeWorkspace {
 public:
  // REQUIRES: memory.bytes >= TileBytes(model).
  DecodeWorkspace(const DeviceModel& model, const LaunchWorkspace& memory);

  // Returns the bytes that one tile needs, with padding.
  static int64_t TileBytes(const DeviceModel& model);

  // Returns the tiles of a launch of `count` tiles, at most most_tiles().
  TileSet Set(int64_t count, int64_t largest_context, bool weighted) const;

  int64_t most_tiles() const { return most_tiles_; }
  char* tiles() const { return tiles_.At(memory_.memory); }      // a LaunchTilesLayout
  char* outputs() const { return outputs_.At(memory_.memory); }  // tile after tile
  int64_t outputs_bytes() const { return outputs_bytes_; }
  // Returns the scratch memory for Forward: the ScratchBytes of LayerForm for each tile.
  LaunchWorkspace scratch() const;

 private:
  const LaunchWorkspace memory_;
  const int64_t most_tiles_;
  const int64_t outputs_bytes_;
  ArenaArray<char> tiles_;
  ArenaArray<float> x_;     // [most_tiles, 64, D]
  ArenaArray<uint16_t> q_;  // [most_tiles, 64, KernelShape::q_stride] bf16
  ArenaArray<char> outputs_;
  int64_t scratch_offset_ = 0;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DECODE_WORKSPACE_H_
