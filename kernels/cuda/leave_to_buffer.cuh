// Where the keys and values of a path's new token go, from whichever kernel has them.
#ifndef CHORALE_KERNELS_CUDA_LEAVE_TO_BUFFER_CUH_
#define CHORALE_KERNELS_CUDA_LEAVE_TO_BUFFER_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/row_layer.h"
#include "kernels/cuda/tile.h"

namespace chorale::kernels::cuda {

// Elements d to d + 7 of a head's key, or of its value, of a row of the tile: to the path's buffer,
// if the row is a buffer token's.
__device__ __forceinline__ void LeaveToBuffer(const Tile& tile, const RowLayerParams& p, int layer,
                                              int row, int kv_head, int d, bool value,
                                              const Words4& words) {
  const int path = row / kGroupRows * kGroupPaths + row % kGroupPaths;
  const bool of_buffer_token = row % kGroupRows >= kGroupPaths;
  if (!of_buffer_token || path >= tile.buffer_paths) return;
  uint16_t* place =
      tile.buffer +
      layer * BufferLayerSize(tile.buffer_capacity, tile.buffer_paths, p.kv_heads, p.head_dim) +
      BufferKeyAt(kv_head, tile.append_place, path, tile.buffer_capacity, tile.buffer_paths,
                  p.head_dim);
  if (!value) {
    StoreAs<Words4>(place + d, words);
    return;
  }
  place += tile.buffer_paths * p.head_dim;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    StoreAs<uint32_t>(place + BufferValueColumn(d + 2 * i, p.head_dim), words.w[i]);
  }
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LEAVE_TO_BUFFER_CUH_
