// The rows of paths, as the kernels that embed them see them.
#ifndef CHORALE_KERNELS_CUDA_EMBED_PATH_ROWS_CUH_
#define CHORALE_KERNELS_CUDA_EMBED_PATH_ROWS_CUH_

#include <cstdint>

#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"

namespace chorale::kernels::cuda {

// The inputs of a path's query row or buffer token.
struct PathRow {
  bool empty = true;  // no such path, or no token yet; the other fields are unused
  int64_t query_row = 0;
  int32_t offset = 0;  // row of the offsets of query rows, context and buffer positions
  float y = 0;
};

// `buffer_positions`: as in EmbedPathsParams.
__device__ __forceinline__ PathRow PathRowOf(const PathTile& paths, int pair_index, bool is_token,
                                             int buffer_positions) {
  PathRow row;
  PathPair pair = PathPairOf(paths, pair_index);
  if (is_token) pair.position += paths.token_position - paths.position;
  row.empty = !InUse(paths, pair) || pair.position < 0;
  if (row.empty) return row;
  if (is_token) {
    row.y = LoadCg<float>(paths.values + ValueAt(paths, pair, 0));
    row.offset = 2 + pair.position % buffer_positions;
  }
  row.query_row = paths.order == nullptr
                      ? pair.position
                      : LoadCg<int32_t>(paths.order + pair.path * paths.positions + pair.position);
  return row;
}

// Four columns of x = encoding + offset + y y_weight.
__device__ __forceinline__ Floats4 EmbedColumns(const float* encoding, const float* offset,
                                                const float* y_weight, float y) {
  const Floats4 e = LoadCg<Floats4>(encoding);
  const Floats4 o = LoadAs<Floats4>(offset);
  const Floats4 w = LoadAs<Floats4>(y_weight);
  Floats4 x;
#pragma unroll
  for (int i = 0; i < 4; ++i) x.v[i] = fmaf(y, w.v[i], e.v[i] + o.v[i]);
  return x;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_EMBED_PATH_ROWS_CUH_
