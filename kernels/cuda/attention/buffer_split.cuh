// Attention of a warp's 16 rows, those of eight paths, to the paths' own buffers, by mma.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_SPLIT_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_SPLIT_CUH_

#include "base/integer_math.h"
#include "kernels/cuda/attention/key_ring.cuh"
#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/ldmatrix.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// The K, or the V, of a chunk of positions of a tile's paths, as they lie in a stage of the ring.
// Positions are 16 bytes more than a multiple of 128 apart, for ldmatrix.
template <int kHeadDim>
struct BufferStage {
  static constexpr int kPositions = kBufferChunk;
  static constexpr int kRowBytes = kHeadDim * 2;
  static constexpr int kPositionBytes = kTilePaths * kRowBytes + 16;
  static constexpr int kBytes = kPositions * kPositionBytes;
};

// The buffers of a tile, as the keys of attention.
struct TileBuffers {
  int positions = 0;           // that some row attends to
  int row_bytes = 0;           // of the K, or the V, of a position
  const char* keys = nullptr;  // of the first position; V follows row_bytes later

  TileBuffers() = default;
  __device__ __forceinline__ TileBuffers(const Tile& tile, const ModelShape& shape, int layer,
                                         int kv_head)
      : positions(tile.buffer == nullptr || tile.groups == 0
                      ? 0
                      : max(tile.visible_query, tile.visible_buffer)),
        row_bytes(tile.buffer_paths * shape.head_dim * 2),
        keys(reinterpret_cast<const char*>(
            tile.buffer +
            layer * BufferLayerSize(tile.buffer_capacity, tile.buffer_paths, shape.kv_heads,
                                    shape.head_dim) +
            BufferKeyAt(kv_head, 0, 0, tile.buffer_capacity, tile.buffer_paths, shape.head_dim))) {}

  // The K, or the V, of a position. Beyond the last position, of that one again: its weights are
  // zero, and what a stage of a ring had before may not be finite.
  __device__ __forceinline__ const char* At(int position, bool values) const {
    return keys + (int64_t{2} * min(position, positions - 1) + (values ? 1 : 0)) * row_bytes;
  }
  // Stages that they take in all.
  __device__ __forceinline__ int stages() const {
    return 2 * static_cast<int>(CeilDiv(positions, kBufferChunk));
  }
};

// The stages of a tile's buffers, one after the other: all of a split, then those of the next one.
// A chunk has a stage of K, then one of V.
class BufferStages {
 public:
  // From the first stage of a split on.
  __device__ __forceinline__ BufferStages(int positions, int split)
      : positions_(positions), split_(split), first_(split * kBufferChunk) {}

  __device__ __forceinline__ bool done() const {
    return split_ == kMaxBufferSplits || first_ >= positions_;
  }
  __device__ __forceinline__ int split() const { return split_; }
  __device__ __forceinline__ bool is_values() const { return is_values_; }
  __device__ __forceinline__ int first_position() const { return first_; }
  // REQUIRES: !done().
  __device__ __forceinline__ void Advance() {
    is_values_ = !is_values_;
    if (is_values_) return;
    first_ += kMaxBufferSplits * kBufferChunk;
    if (first_ >= positions_) first_ = ++split_ * kBufferChunk;
  }

 private:
  const int positions_;  // of all splits
  int split_;
  int first_;
  bool is_values_ = false;
};

// Each path has keys of its own, so a product of 16 rows with a path's keys is of use to two of
// them, g and g + 8 of the lanes with g = path. For the scores, these lanes keep what they need of
// each product. For the values, the weights of all other rows are zero, and the products of all
// paths add up in one accumulator.
//
// Zero times infinity is not zero: should the V of a path not be finite, then each path's product
// is computed apart, with the same bits. Both rows of the path are NaN then, also a query row that
// does not attend to the position of that V.
template <int kHeadDim, typename Reader>
class BufferSplit {
  using T = AttentionTraits<kHeadDim>;
  using Stage = BufferStage<kHeadDim>;
  static constexpr int kPieces = kHeadDim / 8;  // of 16 bytes, of a K or V
  static constexpr int kSumColumns = 4;         // of T::kColumns, summed together
  using Sums = float[kSumColumns][4];

 public:
  // Row g attends to tile.visible_query positions, row g + 8 to tile.visible_buffer.
  __device__ __forceinline__ BufferSplit(const Tile& tile, int group, const Queries<kHeadDim>& q)
      : visible_{tile.visible_query, tile.visible_buffer}, group_(group), q_(q) {}

  // Attends to the chunks of a split, whose stages the ring has (BufferStages), and sets `state`,
  // with l summed up.
  __device__ __forceinline__ void Attend(int positions, int split, bool in_use, Reader& ring,
                                         RowState<kHeadDim>& state) const {
    state.Clear();
#pragma unroll 1
    for (int first = split * kBufferChunk; first < positions;
         first += kMaxBufferSplits * kBufferChunk) {
      float s[4];  // of rows g and g + 8, positions {2j, 2j+1} of the chunk
      const int keys = ring.Take();
      if (in_use) Scores(Rows(ring, keys), s);
      ring.Release(keys);
      float scale[2];
      Exponentiate(first, s, state, scale);
      const uint32_t weights[2] = {PackBf16(s[0], s[1]), PackBf16(s[2], s[3])};
      const int values = ring.Take();
      if (in_use) AddValues(Rows(ring, values), weights, scale, state);
      ring.Release(values);
    }
    state.FinishSplit();
  }

 private:
  // Address of the rows of the group's paths in a stage.
  __device__ __forceinline__ uint32_t Rows(const Reader& ring, int stage) const {
    return ring.Address(stage) + (Reader::kOfGroup ? 0 : group_ * kGroupPaths * Stage::kRowBytes);
  }
  // Address of a lane's row for ldmatrix: the K or V of a position at a path's row, and of its
  // pieces the one of the lane's matrix.
  __device__ __forceinline__ uint32_t RowAt(uint32_t stage) const {
    return stage + LaneIndex() % 8 * Stage::kPositionBytes + LaneIndex() / 8 * 16;
  }

  __device__ __forceinline__ void Scores(uint32_t stage, float (&s)[4]) const {
    const int own = LaneIndex() / 4;
    const uint32_t row = RowAt(stage);
#pragma unroll 4
    for (int path = 0; path < kGroupPaths; ++path) {
      float of_path[4] = {};
#pragma unroll
      for (int piece = 0; piece < kPieces; piece += 4) {
        uint32_t k[4];
        LoadMatrices(row + path * Stage::kRowBytes + piece * 16, k);
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          const uint32_t(&a)[4] = q_.step[(piece + i) / 2];
          Mma(of_path, a[0], a[1], a[2], a[3], k[i], k[i + 1]);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) s[i] = path == own ? of_path[i] : s[i];
    }
  }

  // Replaces the scores by weights 2^(s - m), and adds the weights to l. What was summed before
  // must be scaled. `first`: the chunk's first position.
  __device__ __forceinline__ void Exponentiate(int first, float (&s)[4], RowState<kHeadDim>& state,
                                               float (&scale)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = -INFINITY;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = s[2 * half + i];
        if (first + LaneIndex() % 4 * 2 + i >= visible_[half]) score = -INFINITY;
        largest = fmaxf(largest, score);
      }
      largest = fmaxf(state.m[half], MaxOverLanes<4>(largest));
      scale[half] = largest == -INFINITY ? 1.0f : Exp2(state.m[half] - largest);
      state.m[half] = largest;
      state.l[half] *= scale[half];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = s[2 * half + i];
        // A row without positions so far has m = -inf, and all its scores are -inf.
        score = score == -INFINITY ? 0.0f : Exp2(score - largest);
        state.l[half] += score;
      }
    }
  }

  // kSumColumns of the columns at a time, to need fewer registers.
  __device__ __forceinline__ void AddValues(uint32_t stage, const uint32_t (&weights)[2],
                                            const float (&scale)[2],
                                            RowState<kHeadDim>& state) const {
#pragma unroll
    for (int first = 0; first < T::kColumns; first += kSumColumns) {
      Sums sums = {};
      MultiplyValues(stage, first, weights, sums);
      float zero[kSumColumns] = {};
#pragma unroll
      for (int n = 0; n < kSumColumns; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) zero[n] = fmaf(sums[n][i], 0.0f, zero[n]);
      }
      static_assert(kSumColumns == 4);
      const bool finite = (zero[0] + zero[1]) + (zero[2] + zero[3]) == 0.0f;
      if (__ballot_sync(kAllLanes, !finite) != 0) MultiplyApart(stage, first, weights, sums);
#pragma unroll
      for (int n = 0; n < kSumColumns; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& o = state.o[first + n][i];
          o = fmaf(o, scale[i / 2], sums[n][i]);
        }
      }
    }
  }

  // The weights of a pair of paths are the two halves of an operand A.
  __device__ __forceinline__ void MultiplyValues(uint32_t stage, int first,
                                                 const uint32_t (&weights)[2], Sums& sums) const {
    const int own = LaneIndex() / 4;
    // Of the lane's matrix: the path of the pair, and the columns.
    const uint32_t row = stage + LaneIndex() % 8 * Stage::kPositionBytes +
                         LaneIndex() / 8 % 2 * Stage::kRowBytes + (first + LaneIndex() / 16) * 16;
#pragma unroll
    for (int path = 0; path < kGroupPaths; path += 2) {
      const bool is_first = path == own;
      const bool is_second = path + 1 == own;
      const uint32_t a[4] = {is_first ? weights[0] : 0, is_first ? weights[1] : 0,
                             is_second ? weights[0] : 0, is_second ? weights[1] : 0};
#pragma unroll
      for (int piece = 0; piece < kSumColumns; piece += 2) {
        uint32_t v[4];
        LoadMatricesTransposed(row + path * Stage::kRowBytes + piece * 16, v);
        Mma(sums[piece], a[0], a[1], a[2], a[3], v[0], v[1]);
        Mma(sums[piece + 1], a[0], a[1], a[2], a[3], v[2], v[3]);
      }
    }
  }

  __device__ __forceinline__ void MultiplyApart(uint32_t stage, int first,
                                                const uint32_t (&weights)[2], Sums& sums) const {
    const int own = LaneIndex() / 4;
    const uint32_t row = RowAt(stage) + first * 16;
#pragma unroll 1
    for (int path = 0; path < kGroupPaths; ++path) {
      const bool is_own = path == own;
      uint32_t v[kSumColumns];
      LoadMatricesTransposed(row + path * Stage::kRowBytes, v);
#pragma unroll
      for (int n = 0; n < kSumColumns; ++n) {
        float of_path[4] = {};
        Mma(of_path, is_own ? weights[0] : 0, is_own ? weights[1] : 0, v[n]);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[n][i] = is_own ? of_path[i] : sums[n][i];
      }
    }
  }

  const int visible_[2];
  const int group_;
  const Queries<kHeadDim>& q_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_BUFFER_SPLIT_CUH_
