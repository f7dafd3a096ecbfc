// Attention of a path's two rows to the path's own buffer.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_KEYS_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_KEYS_CUH_

#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/bf16.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// The buffer of the lane's path, which four lanes read together, kPositions positions at a time.
// Positions are distributed over the splits round-robin (layout/kv_split.h). With
// kPrefetchPositions, the first positions of a split are loaded while it attends to the context;
// later positions, as soon as the registers of the previous keys, or values, are free.
template <int kHeadDim>
class BufferKeys {
  using T = AttentionTraits<kHeadDim>;
  static constexpr int kPositions = T::kPositions;
  using Words = SliceWords<T::kLaneElements / 2>;

 public:
  // Row g attends to tile.visible_query positions, row g + 8 to tile.visible_buffer.
  __device__ __forceinline__ BufferKeys(const Tile& tile, int layer, int kv_heads, int kv_head,
                                        int path, int splits)
      : visible_{tile.visible_query, tile.visible_buffer},
        stride_(splits * kPositions),
        positions_(max(tile.visible_query, tile.visible_buffer)),
        value_offset_(tile.buffer_paths * kHeadDim),
        keys_(tile.buffer +
              layer * BufferLayerSize(tile.buffer_capacity, tile.buffer_paths, kv_heads, kHeadDim) +
              BufferKeyAt(kv_head, 0, path, tile.buffer_capacity, tile.buffer_paths, kHeadDim) +
              ThreadIndex() % 4 * T::kLaneElements) {
    if (tile.buffer == nullptr || path >= tile.buffer_paths) positions_ = 0;
  }

  // Starts to load the first positions of a split.
  __device__ __forceinline__ void Begin(int split) {
    if (T::kPrefetchPositions) FetchFirst(split * kPositions);
  }

  // Attends to the positions of a split. REQUIRES: Begin(split) was the last call of Begin.
  __device__ __forceinline__ void Attend(int split, const Queries<kHeadDim>& q,
                                         RowState<kHeadDim>& state) {
    if (!T::kPrefetchPositions) FetchFirst(split * kPositions);
#pragma unroll 1
    for (int first = split * kPositions; first < positions_; first += stride_) {
      const int next = first + stride_;
      float s[kPositions][2];
      Scores(first, q, s);
      if (next < positions_) Fetch(next, 0, k_);
      Exponentiate(s, state);
      AddValues(s, state);
      if (next < positions_) Fetch(next, value_offset_, v_);
    }
  }

 private:
  __device__ __forceinline__ void FetchFirst(int first) {
    if (first >= positions_) return;
    Fetch(first, 0, k_);
    Fetch(first, value_offset_, v_);
  }

  __device__ __forceinline__ void Fetch(int first, int offset,
                                        Words (&words)[kPositions][T::kSlices]) const {
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      // Beyond the end, loads the last position again; Scores masks it.
      const int position = min(first + i, positions_ - 1);
      const uint16_t* from = keys_ + position * int64_t{2} * value_offset_ + offset;
#pragma unroll
      for (int b = 0; b < T::kSlices; ++b) words[i][b].LoadCg(from + b * T::kSlice);
    }
  }

  __device__ __forceinline__ void Scores(int first, const Queries<kHeadDim>& q,
                                         float (&s)[kPositions][2]) const {
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float dot = 0;
#pragma unroll
        for (int b = 0; b < T::kSlices; ++b) {
#pragma unroll
          for (int w = 0; w < T::kLaneElements / 2; ++w) {
            const uint32_t qw = q.row[half][b].w[w];
            dot = fmaf(FirstBf16(qw), FirstBf16(k_[i][b].w[w]), dot);
            dot = fmaf(SecondBf16(qw), SecondBf16(k_[i][b].w[w]), dot);
          }
        }
        dot = SumOverLanes<4>(dot);
        s[i][half] = first + i < visible_[half] ? dot : -INFINITY;
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

  __device__ __forceinline__ void AddValues(const float (&s)[kPositions][2],
                                            RowState<kHeadDim>& state) const {
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
#pragma unroll
      for (int b = 0; b < T::kSlices; ++b) {
#pragma unroll
        for (int w = 0; w < T::kLaneElements / 2; ++w) {
          float(&o)[4] = state.o[b * (T::kSlice / 8) + w];
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            o[2 * half] = fmaf(s[i][half], FirstBf16(v_[i][b].w[w]), o[2 * half]);
            o[2 * half + 1] = fmaf(s[i][half], SecondBf16(v_[i][b].w[w]), o[2 * half + 1]);
          }
        }
      }
    }
  }

  const int visible_[2];
  const int stride_;  // from a split's positions to its next ones
  int positions_;
  const int value_offset_;      // from a K to its V; positions are twice as far apart
  const uint16_t* const keys_;  // this lane's elements of the K of position 0
  Words k_[kPositions][T::kSlices];
  Words v_[kPositions][T::kSlices];
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_KEYS_CUH_
