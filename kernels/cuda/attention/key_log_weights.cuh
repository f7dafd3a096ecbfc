// The weights of a context's keys in attention: numbers that are added to scores.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_KEY_LOG_WEIGHTS_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_KEY_LOG_WEIGHTS_CUH_

#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// A warp's view of the logarithms of the weights of one head's keys. All lanes call each function
// together. Key blocks are named by their number of keys and of those after them, `left`, since
// loops count keys down. The weights are not all 1: a block whose context has no weights takes
// NoLogWeights instead, whose loops are those of a kernel without weights.
//
// There are two forms with the same bits. Fetch loads the 256 bytes of a key block, two numbers in
// each lane, while the warp computes the key block before; AddTo then exchanges them by shuffles.
// LoadAndAdd loads a lane's numbers when they are needed. It keeps none in registers, but the warp
// waits for the L2 cache: it is for kernels and sweeps that are short of registers.
class KeyLogWeights {
  static_assert(kKeyBlockKeys == 2 * kWarpSize);

 public:
  // Of `keys` keys of the head, from `first` on, a multiple of kKeyBlockKeys.
  __device__ __forceinline__ KeyLogWeights(const Tile& tile, int layer, int kv_head, int kv_heads,
                                           int first, int keys)
      : end_(tile.context_log_weights +
             ContextWeightsAt(layer, kv_head, tile.context_capacity, kv_heads) + first + keys) {}
  // Of all keys of the head.
  __device__ __forceinline__ KeyLogWeights(const Tile& tile, int layer, int kv_head, int kv_heads)
      : KeyLogWeights(tile, layer, kv_head, kv_heads, /*first=*/0, tile.context_rows) {}

  // Starts to load those of a key block, if there is one.
  __device__ __forceinline__ void Fetch(int left) {
    if (left <= 0) return;
    fetched_ = LoadCg<Floats2>(end_ - left + static_cast<int>(threadIdx.x % kWarpSize) * 2);
  }
  // Adds those that were fetched to the lane's scores of keys `first`, first + 1, ... of the key
  // block, which are in the order of an mma's sums. What is added to scores of keys that are not
  // there means nothing.
  template <int kScores>
  __device__ __forceinline__ void AddTo(float (&scores)[kScores], int first = 0) const {
#pragma unroll
    for (int n = 0; n < kScores / 4; ++n) {
      const int lane = static_cast<int>(threadIdx.x % 4) + first / 2 + 4 * n;
      AddToColumns({__shfl_sync(kAllLanes, fetched_.v[0], lane),
                    __shfl_sync(kAllLanes, fetched_.v[1], lane)},
                   scores + 4 * n);
    }
  }

  // Loads and adds those of a key block, if there is one.
  template <int kScores>
  __device__ __forceinline__ void LoadAndAdd(int left, int first, float (&scores)[kScores]) const {
    if (left <= 0) return;
    const float* const of_lane = end_ - left + first + static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
    for (int n = 0; n < kScores / 4; ++n) {
      AddToColumns(LoadCg<Floats2>(of_lane + 8 * n), scores + 4 * n);
    }
  }

 private:
  // Adds to the scores of two keys in the rows g and g + 8.
  __device__ __forceinline__ static void AddToColumns(const Floats2& log_weights, float* scores) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[i] += log_weights.v[i % 2];
  }

  const float* const end_;  // behind those of the last key
  Floats2 fetched_ = {};    // of keys 2 * lane and 2 * lane + 1 of a key block
};

// In place of KeyLogWeights, if all weights are 1.
struct NoLogWeights {
  __device__ __forceinline__ void Fetch(int /*left*/) {}
  template <int kScores>
  __device__ __forceinline__ void AddTo(float (&/*scores*/)[kScores], int /*first*/ = 0) const {}
  template <int kScores>
  __device__ __forceinline__ void LoadAndAdd(int /*left*/, int /*first*/,
                                             float (&/*scores*/)[kScores]) const {}
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_KEY_LOG_WEIGHTS_CUH_
