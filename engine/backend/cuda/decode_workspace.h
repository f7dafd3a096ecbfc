// How the launch workspace is divided while tiles of one model decode.
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

// Steps whose outputs fit in the workspace; fewer for tiles that keep mixtures.
inline constexpr int64_t kMostBatchSteps = 32;

// Tile and PathTile of every tile of a launch, next to each other so that one copy uploads both.
struct LaunchTilesLayout {
  explicit LaunchTilesLayout(int64_t count);

  ArenaArray<kernels::cuda::Tile> tiles;      // [count]
  ArenaArray<kernels::cuda::PathTile> paths;  // [count]
  int64_t bytes = 0;
};

// Device memory.
class DecodeWorkspace {
 public:
  // REQUIRES: memory.bytes >= TileBytes(model).
  DecodeWorkspace(const DeviceModel& model, const LaunchWorkspace& memory);

  // Bytes that one tile needs, padding included.
  static int64_t TileBytes(const DeviceModel& model);

  // The tiles of a launch of `count`, at most most_tiles().
  TileSet Set(int64_t count, int64_t largest_context) const;

  int64_t most_tiles() const { return most_tiles_; }
  char* tiles() const { return tiles_.At(memory_.memory); }      // a LaunchTilesLayout
  char* outputs() const { return outputs_.At(memory_.memory); }  // of one tile after the other
  int64_t outputs_bytes() const { return outputs_bytes_; }
  // For Forward: what it needs of one tile, for each of them.
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
