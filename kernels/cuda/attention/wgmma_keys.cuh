// The products of attention by wgmma (compute capability 9.0): of 64 rows, by one warpgroup, with
// key blocks in shared memory.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_WGMMA_KEYS_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_WGMMA_KEYS_CUH_

#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/smem_descriptor.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace chorale::kernels::cuda {

inline constexpr int kWarpgroupThreads = kWarpgroupWarps * kWarpSize;

// A lane holds two of its warp's 16 rows, g and g + 8. Its scores and sums are in the order of a
// wgmma's sums: i % 4 / 2 is the row's half.
template <int kHeadDim>
struct WgmmaKeys {
  static constexpr int kScores = kKeyBlockKeys / 2;  // of a lane, in two rows
  static constexpr int kColumns = kHeadDim / 2;      // likewise
  static constexpr int kKeyBlockBytes = static_cast<int>(KeyBlockSize(kHeadDim)) * 2;
  static constexpr int kQueryBytes = kTileRows * kHeadDim * 2;

  using Scores = float[kScores];
  using Sums = float[kColumns];
  using Weights = uint32_t[kKeyBlockKeys / 16][4];

  // Copies the q of a tile's rows, which begin `stride` elements apart, to shared memory, in the
  // order of the keys of a key block. Called by all threads of a warpgroup; wgmma may read it after
  // FenceProxyAsync and a barrier of the warpgroup.
  __device__ __forceinline__ static void CopyQueries(const uint16_t* q, int64_t stride,
                                                     uint16_t* to) {
    constexpr int kPieces = kHeadDim / 8;  // of a row
#pragma unroll
    for (int i = 0; i < kTileRows * kPieces / kWarpgroupThreads; ++i) {
      const int piece = i * kWarpgroupThreads + ThreadIndex() % kWarpgroupThreads;
      const int row = piece / kPieces;
      const int d = piece % kPieces * 8;
      StoreAs<Words4>(to + KeyBlockKeyAt(row, d, kHeadDim), LoadCg<Words4>(q + row * stride + d));
    }
  }

  // scores = q K, of a key block, or of its first 2 kCount keys. Addresses in shared memory.
  template <int kCount>
  __device__ __forceinline__ static void MultiplyKeys(uint32_t queries, uint32_t key_block,
                                                      float (&scores)[kCount]) {
    constexpr int kSliceBytes = 2 * kSwizzledRows;
    constexpr int kRowsStride = kHeadDim / kSwizzledRow * kSliceBytes;
    const uint64_t q = MakeSwizzledDescriptor(queries, kRowsStride);
    const uint64_t keys = MakeSwizzledDescriptor(key_block, kRowsStride);
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      const int offset = StepBytes(step, kSliceBytes) / 16;
      Wgmma(scores, q + offset, keys + offset, step > 0);
    }
  }

  // The same with the queries of each warp's rows in its registers.
  __device__ __forceinline__ static void MultiplyKeys(const Queries<kHeadDim>& queries,
                                                      uint32_t key_block, Scores& scores) {
    constexpr int kSliceBytes = 2 * kSwizzledRows;
    constexpr int kRowsStride = kHeadDim / kSwizzledRow * kSliceBytes;
    const uint64_t keys = MakeSwizzledDescriptor(key_block, kRowsStride);
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      Wgmma(scores, queries.step[step], keys + StepBytes(step, kSliceBytes) / 16, step > 0);
    }
  }

  // o += weights V, of a key block.
  __device__ __forceinline__ static void MultiplyValues(const Weights& weights, uint32_t key_block,
                                                        Sums& o, bool adds = true) {
    MultiplyValuesAt(weights, key_block + kKeyBlockBytes / 2, o, adds);
  }
  // The same of the first 16 kKeySteps keys. `v`: address of the V.
  template <int kKeySteps>
  __device__ __forceinline__ static void MultiplyValuesAt(const uint32_t (&weights)[kKeySteps][4],
                                                          uint32_t v, Sums& o, bool adds) {
    constexpr int kRowsStride = 2 * kSwizzledRows;
    constexpr int kSliceBytes = kHeadDim / 8 * kRowsStride;
    const uint64_t values = MakeSwizzledDescriptor(v, kRowsStride);
#pragma unroll
    for (int step = 0; step < kKeySteps; ++step) {
      Wgmma(o, weights[step], values + StepBytes(step, kSliceBytes) / 16, step > 0 || adds);
    }
  }

  // Scores of keys from `valid` on become -inf.
  __device__ __forceinline__ static void Mask(Scores& scores, int valid) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      if (i / 4 * 8 + LaneIndex() % 4 * 2 + i % 2 >= valid) scores[i] = -INFINITY;
    }
  }

  // A lane's scores of 16 keys, exponentiated, are its fragment of the weights.
  template <int kKeySteps>
  __device__ __forceinline__ static void PackWeights(const float (&scores)[8 * kKeySteps],
                                                     uint32_t (&weights)[kKeySteps][4]) {
#pragma unroll
    for (int step = 0; step < kKeySteps; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const int at = 8 * step + 2 * word;
        weights[step][word] = PackBf16(scores[at], scores[at + 1]);
      }
    }
  }

 private:
  // Bytes from the first 16 elements of swizzled rows to the step-th, where slices are
  // `slice_bytes` apart.
  static constexpr int StepBytes(int step, int slice_bytes) {
    return step / 2 * slice_bytes + step % 2 * 32;
  }
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_WGMMA_KEYS_CUH_
