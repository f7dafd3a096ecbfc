// Where the rows of paths are in a tile; see kernels/cuda/layout/tile.h.
#ifndef CHORALE_TESTS_KERNELS_CUDA_TILE_ROWS_H_
#define CHORALE_TESTS_KERNELS_CUDA_TILE_ROWS_H_

namespace chorale::kernels::cuda {

// The row in its tile of the token of a path's query row; the buffer token's is 8 rows below.
constexpr int TargetRow(int path) { return path / 8 * 16 + path % 8; }

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_TILE_ROWS_H_
