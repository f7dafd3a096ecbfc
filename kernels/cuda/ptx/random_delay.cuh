// Random delays of warps, for builds that look for races (CHORALE_RANDOM_DELAYS).
#ifndef CHORALE_KERNELS_CUDA_PTX_RANDOM_DELAY_CUH_
#define CHORALE_KERNELS_CUDA_PTX_RANDOM_DELAY_CUH_

#include <cstdint>

namespace chorale::kernels::cuda {

// Called where a warp signals others or waits for them. In such a build, one call in eight sleeps,
// for up to a microsecond; in others, it does nothing.
__device__ __forceinline__ void RandomDelay() {
#ifdef CHORALE_RANDOM_DELAYS
  uint32_t random = static_cast<uint32_t>(clock()) + threadIdx.x / 32 * 0x9e3779b9u;
  random = (random ^ random >> 15) * 0x85ebca6bu;
  random ^= random >> 13;
  if (random % 8 == 0) __nanosleep(random / 8 % 1024);
#endif
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_RANDOM_DELAY_CUH_
