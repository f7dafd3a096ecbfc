// Combines the softmax states of KV splits (kernels/ops/softmax_state.h, with scores in units of
// log 2). The attention kernel combines states in registers, the layer kernels combine partials
// from memory; both use these functions, with explicit fused multiply-adds, and get the same bits.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_SPLIT_STATE_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_SPLIT_STATE_CUH_

#include "kernels/cuda/ptx/math.cuh"

namespace chorale::kernels::cuda {

// Scales of both sides when a split is combined with the splits before it.
struct CombineScale {
  float combined = 0;
  float split = 0;
};

// Updates m to the larger maximum. A side without keys has m = -inf and scale 0; when neither has
// any, both scales are 0, and l and o stay 0.
__device__ __forceinline__ CombineScale CombineMax(float& m, float split_m) {
  const float largest = fmaxf(m, split_m);
  if (largest == -INFINITY) return {};
  const CombineScale scale = {Exp2(m - largest), Exp2(split_m - largest)};
  m = largest;
  return scale;
}

// An element of l or o.
__device__ __forceinline__ float CombineSum(float combined, float split,
                                            const CombineScale& scale) {
  return fmaf(combined, scale.combined, split * scale.split);
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_SPLIT_STATE_CUH_
