// The counters of a decode's tile, which the head moves on to the next position.
#ifndef CHORALE_KERNELS_CUDA_HEAD_ADVANCE_TILE_CUH_
#define CHORALE_KERNELS_CUDA_HEAD_ADVANCE_TILE_CUH_

#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"

namespace chorale::kernels::cuda {

// Called by one thread of each of the `blocks` blocks that have rows of the tile in use, when its
// block has read all fields that change here; `before` is a copy of `paths`. The last one advances
// the tile. A tile of another work than a decode stays as it is.
__device__ __forceinline__ void AdvanceTile(const PathTile& before, int blocks, Tile& tile,
                                            PathTile& paths) {
  if (before.steps_left == 0 || AtomicIncrement(&paths.head_blocks) + 1 < blocks) return;
  const int next = before.position + 1;
  paths.head_blocks = 0;
  paths.steps_left = before.steps_left - 1;
  paths.token_position = before.position;
  paths.position = next;
  tile.append_position = before.position;
  tile.visible_query = next;
  tile.visible_buffer = next;
  if (before.steps_left == 1 || next == before.positions) tile.groups = 0;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_HEAD_ADVANCE_TILE_CUH_
