// The embedding of a token, by whichever kernel needs it.
#ifndef CHORALE_KERNELS_CUDA_EMBED_ELEMENTS_CUH_
#define CHORALE_KERNELS_CUDA_EMBED_ELEMENTS_CUH_

#include "kernels/cuda/device.cuh"

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

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_EMBED_ELEMENTS_CUH_
