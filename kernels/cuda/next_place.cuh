// How a tile of a decode goes on from one place to the next.
#ifndef CHORALE_KERNELS_CUDA_NEXT_PLACE_CUH_
#define CHORALE_KERNELS_CUDA_NEXT_PLACE_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/path_tile.h"
#include "kernels/cuda/tile.h"

namespace chorale::kernels::cuda {

// `place`: of the targets that were just drawn.
__device__ __forceinline__ void SetNextPlace(int place, Tile& tile, PathTile& paths) {
  paths.token_place = place;
  paths.place = place + 1;
  tile.append_place = place;
  tile.visible_target = place + 1;
  tile.visible_buffer = place + 1;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_NEXT_PLACE_CUH_
