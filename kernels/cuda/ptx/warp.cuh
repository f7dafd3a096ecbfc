// Warps, lanes and exchanges between lanes.
#ifndef CHORALE_KERNELS_CUDA_PTX_WARP_CUH_
#define CHORALE_KERNELS_CUDA_PTX_WARP_CUH_

#include <cstdint>

#include "kernels/cuda/layout/fragments.h"

namespace chorale::kernels::cuda {

inline constexpr uint32_t kAllLanes = 0xffffffffu;

// Indices in the block, and of a lane in its warp. Signed: some kernels use threadIdx.x instead,
// whose unsigned arithmetic takes them fewer registers.
__device__ __forceinline__ int ThreadIndex() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int LaneIndex() { return ThreadIndex() % kWarpSize; }
__device__ __forceinline__ int WarpIndex() { return ThreadIndex() / kWarpSize; }

// Called by all lanes of a warp. The shuffle tells the compiler that the index is the same in all
// lanes, so that values computed from it may use uniform registers.
__device__ __forceinline__ int WarpgroupIndex() {
  return __shfl_sync(kAllLanes, ThreadIndex() / (kWarpgroupWarps * kWarpSize), 0);
}

// Sum and maximum over each kLanes lanes, consecutive ones or kStride apart; all of them get the
// same bits. Several sums at once overlap their latencies.
template <int kLanes, int kStride = 1, int kValues, typename T>
__device__ __forceinline__ void SumOverLanes(T (&values)[kValues]) {
#pragma unroll
  for (int bits = kStride; bits < kLanes * kStride; bits *= 2) {
    T others[kValues];
#pragma unroll
    for (int i = 0; i < kValues; ++i) others[i] = __shfl_xor_sync(kAllLanes, values[i], bits);
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] += others[i];
  }
}
template <int kLanes, typename T>
__device__ __forceinline__ T SumOverLanes(T value) {
  T values[1] = {value};
  SumOverLanes<kLanes>(values);
  return values[0];
}
template <int kLanes, int kStride = 1, int kValues, typename T>
__device__ __forceinline__ void MaxOverLanes(T (&values)[kValues]) {
#pragma unroll
  for (int bits = kStride; bits < kLanes * kStride; bits *= 2) {
    T others[kValues];
#pragma unroll
    for (int i = 0; i < kValues; ++i) others[i] = __shfl_xor_sync(kAllLanes, values[i], bits);
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] = others[i] > values[i] ? others[i] : values[i];
  }
}
template <int kLanes, typename T>
__device__ __forceinline__ T MaxOverLanes(T value) {
  T values[1] = {value};
  MaxOverLanes<kLanes>(values);
  return values[0];
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_WARP_CUH_
