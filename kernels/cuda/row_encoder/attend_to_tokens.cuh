// A cell block whose keys and values are precomputed: those of a column's inducing points or of a
// row's cells.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_ATTEND_TO_TOKENS_CUH_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_ATTEND_TO_TOKENS_CUH_

#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/row_encoder/cell_block.cuh"

namespace chorale::kernels::cuda {

// x = block(x; `count` tokens), with the tokens' K and V at `keys` in cell tiles (cell_layout.h).
// Called by one warp; count is at least 1.
__device__ __forceinline__ void AttendToTokens(const CellBlock& cell_block, const uint16_t* keys,
                                               int count, CellTokens& x) {
  const int lane = threadIdx.x % kWarpSize;
  const bool reads[2] = {true, true};
  const CellOperand h = cell_block.Normed(x);
  CellOperand attended;
#pragma unroll
  for (int head = 0; head < kCellHeads; ++head) {
    uint32_t q[4];
    cell_block.Query(h, head, q);
    CellHeadState state;
    state.Clear();
    const uint16_t* of_head = keys + head * kCellHeadKvSize + lane * 8;
    for (int first = 0; first < count; first += kCellTileTokens) {
      const uint16_t* tile = of_head + first / kCellTileTokens * kCellTileKvSize;
      state.Attend(q, LoadAs<Words4>(tile), LoadAs<Words4>(tile + kCellHeadKeysSize), count - first,
                   reads, cell_block.shape().score_scale);
    }
    state.Finish(attended.w[head]);
  }
  cell_block.Finish(attended, x);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_ATTEND_TO_TOKENS_CUH_
