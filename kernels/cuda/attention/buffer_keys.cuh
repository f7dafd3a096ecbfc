// Attention of a path's two rows to the path's own buffer, by multiply-adds, for heads of 16 and
// 128.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_KEYS_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_KEYS_CUH_

#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/bf16.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// The buffer of the lane's path, which four lanes read together, kPositions positions at a time:
// the next ones as soon as the registers of the keys, or values, are free.
template <int kHeadDim>
class BufferKeys {
  using T = AttentionTraits<kHeadDim>;
  static constexpr int kPositions = kHeadDim == 16 ? 4 : 1;
  using Words = uint32_t[kPositions][T::kColumns];  // columns 8n + {2j, 2j+1}

 public:
  // Row g attends to tile.visible_query positions, row g + 8 to tile.visible_buffer.
  __device__ __forceinline__ BufferKeys(const Tile& tile, int layer, int kv_heads, int kv_head,
                                        int path)
      : visible_{tile.visible_query, tile.visible_buffer},
        positions_(max(tile.visible_query, tile.visible_buffer)),
        value_offset_(tile.buffer_paths * kHeadDim),
        keys_(tile.buffer +
              layer * BufferLayerSize(tile.buffer_capacity, tile.buffer_paths, kv_heads, kHeadDim) +
              BufferKeyAt(kv_head, 0, path, tile.buffer_capacity, tile.buffer_paths, kHeadDim) +
              ThreadIndex() % 4 * 2) {
    if (tile.buffer == nullptr || path >= tile.buffer_paths) positions_ = 0;
  }

  // Attends to the chunks of a split, and sets `state`, with l summed up.
  __device__ __forceinline__ void Attend(int split, const Queries<kHeadDim>& q,
                                         RowState<kHeadDim>& state) const {
    state.Clear();
    const int positions = max(visible_[0], visible_[1]);  // of all paths of a warp
#pragma unroll 1
    for (int chunk = split * kBufferChunk; chunk < positions;
         chunk += kMaxBufferSplits * kBufferChunk) {
#pragma unroll 1
      for (int first = chunk; first < min(chunk + kBufferChunk, positions); first += kPositions) {
        Words words;
        float s[kPositions][2];
        Fetch(first, 0, words);
        Scores(first, q, words, s);
        Exponentiate(s, state);
        Fetch(first, value_offset_, words);
        AddValues(s, words, state);
      }
    }
    state.FinishSplit();
  }

 private:
  // Beyond the last position, loads that one again: Scores masks it.
  __device__ __forceinline__ void Fetch(int first, int offset, Words& words) const {
    if (positions_ <= 0) return;
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      const int position = min(first + i, positions_ - 1);
      const uint16_t* from = keys_ + position * int64_t{2} * value_offset_ + offset;
#pragma unroll
      for (int n = 0; n < T::kColumns; ++n) words[i][n] = LoadCg<uint32_t>(from + 8 * n);
    }
  }

  __device__ __forceinline__ void Scores(int first, const Queries<kHeadDim>& q, const Words& k,
                                         float (&s)[kPositions][2]) const {
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float dot = 0;
#pragma unroll
        for (int n = 0; n < T::kColumns; ++n) {
          const uint32_t qw = q.step[n / 2][n % 2 * 2 + half];
          dot = fmaf(FirstBf16(qw), FirstBf16(k[i][n]), dot);
          dot = fmaf(SecondBf16(qw), SecondBf16(k[i][n]), dot);
        }
        dot = SumOverLanes<4>(dot);
        s[i][half] = positions_ > 0 && first + i < visible_[half] ? dot : -INFINITY;
      }
    }
  }

  // Replaces the scores `s` by weights 2^(s - m), and adds the weights to l.
  __device__ __forceinline__ static void Exponentiate(float (&s)[kPositions][2],
                                                      RowState<kHeadDim>& state) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = s[0][half];
#pragma unroll
      for (int i = 1; i < kPositions; ++i) largest = fmaxf(largest, s[i][half]);
      state.RaiseMaximum(half, largest);
#pragma unroll
      for (int i = 0; i < kPositions; ++i) {
        // A row without keys so far has m = -inf, and all its scores are -inf.
        s[i][half] = s[i][half] == -INFINITY ? 0.0f : Exp2(s[i][half] - state.m[half]);
        if (ThreadIndex() % 4 == 0) state.l[half] += s[i][half];  // in one lane of the row
      }
    }
  }

  __device__ __forceinline__ static void AddValues(const float (&s)[kPositions][2], const Words& v,
                                                   RowState<kHeadDim>& state) {
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
#pragma unroll
      for (int n = 0; n < T::kColumns; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float& first = state.o[n][2 * half];
          float& second = state.o[n][2 * half + 1];
          first = fmaf(s[i][half], FirstBf16(v[i][n]), first);
          second = fmaf(s[i][half], SecondBf16(v[i][n]), second);
        }
      }
    }
  }

  const int visible_[2];
  int positions_;
  const int value_offset_;      // from a K to its V; positions are twice as far apart
  const uint16_t* const keys_;  // this lane's elements of the K of position 0
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_KEYS_CUH_
