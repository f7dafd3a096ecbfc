// The embedding of targets and tokens, by whichever kernel needs it.
#ifndef CHORALE_KERNELS_CUDA_EMBED_ELEMENTS_CUH_
#define CHORALE_KERNELS_CUDA_EMBED_ELEMENTS_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/path_tile.h"

namespace chorale::kernels::cuda {

// Four elements of x = encoding + offset + y y_weight.
__device__ __forceinline__ Floats4 EmbedElements(const float* encoding, const float* offset,
                                                 const float* y_weight, float y) {
  const Floats4 e = LoadFresh<Floats4>(encoding);
  const Floats4 o = LoadAs<Floats4>(offset);
  const Floats4 w = LoadAs<Floats4>(y_weight);
  Floats4 x;
#pragma unroll
  for (int i = 0; i < 4; ++i) x.v[i] = fmaf(y, w.v[i], e.v[i] + o.v[i]);
  return x;
}

// What the row of a path at the tile's current place is made from: its target, or its buffer token.
struct PathRow {
  bool empty = true;  // there is no such path, or no token yet; the rest is then of no use
  int64_t target = 0;
  int32_t offset = 0;  // row of the offsets of target, context and buffer places
  float y = 0;
};

// `places`: as in EmbedPathsParams.
__device__ __forceinline__ PathRow PathRowOf(const PathTile& paths, int path, bool is_token,
                                             int places) {
  PathRow row;
  const int place = is_token ? paths.token_place : paths.place;
  row.empty = path >= paths.paths || place < 0;
  if (row.empty) return row;
  if (is_token) {
    row.y = LoadFresh<float>(paths.values + place * paths.paths + path);
    row.offset = 2 + place % places;
  }
  row.target = paths.order == nullptr
                   ? place
                   : LoadFresh<int32_t>(paths.order + path * paths.targets + place);
  return row;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_EMBED_ELEMENTS_CUH_
