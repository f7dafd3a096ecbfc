// Streams the key blocks of a context through shared memory.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_CONTEXT_STREAM_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_CONTEXT_STREAM_CUH_

#include <cstdint>

#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/smem.cuh"

namespace chorale::kernels::cuda {

// A ring of kStages - 1 prefetched key blocks at the start of shared memory, and the one in use,
// for a block of kThreads threads.
template <int kHeadDim, int kStages, int kThreads>
class ContextStream {
  using T = AttentionTraits<kHeadDim>;
  static_assert(T::kKeyBlockBytes % (16 * kThreads) == 0);

 public:
  // Streams key blocks [first, end) of `head`, the context's K and V of one head.
  __device__ __forceinline__ ContextStream(const uint16_t* head, int first, int end)
      : head_(head), first_(first), end_(end) {}

  // Starts to copy the first key blocks.
  __device__ __forceinline__ void Begin() {
    for (int i = 0; i < kStages - 1; ++i) Fetch(first_ + i);
  }
  // Goes back. Called by all threads.
  __device__ __forceinline__ void Restart(int first) {
    End();
    first_ = first;
    Begin();
  }
  // Waits until nobody uses the shared memory. Called by all threads.
  __device__ __forceinline__ void End() const {
    CpAsyncWait<0>();
    __syncthreads();
  }

  // Waits for a key block and starts to copy one more. Called by all threads, in the order of the
  // key blocks.
  __device__ __forceinline__ uint32_t Take(int key_block) {
    CpAsyncWait<kStages - 2>();
    __syncthreads();  // all threads see the key block, and have finished the previous one
    Fetch(key_block + kStages - 1);
    return SmemAddress(At(key_block));
  }

 private:
  __device__ __forceinline__ char* At(int key_block) const {
    return DynamicSmem() + (key_block - first_) % kStages * T::kKeyBlockBytes;
  }

  __device__ __forceinline__ void Fetch(int key_block) {
    if (key_block < end_) {
      const char* from = reinterpret_cast<const char*>(head_ + key_block * KeyBlockSize(kHeadDim));
      char* to = At(key_block);
#pragma unroll
      for (int i = 0; i < T::kKeyBlockBytes / (16 * kThreads); ++i) {
        const int at = (i * kThreads + static_cast<int>(threadIdx.x)) * 16;
        CpAsync16(to + at, from + at);
      }
    }
    CpAsyncCommit();
  }

  const uint16_t* const head_;
  int first_;
  const int end_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_CONTEXT_STREAM_CUH_
