// BufferSplit with keys as the rows of products, for a warp that passes its states on through
// shared memory.
#ifndef CHORALE_KERNELS_CUDA_ATTENTION_TRANSPOSED_BUFFER_SPLIT_CUH_
#define CHORALE_KERNELS_CUDA_ATTENTION_TRANSPOSED_BUFFER_SPLIT_CUH_

#include "kernels/cuda/attention/buffer_split.cuh"
#include "kernels/cuda/attention/split_state.cuh"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/ldmatrix.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

// Paths whose two rows each are the eight columns of a product.
inline constexpr int kQuadPaths = 4;
inline constexpr int kGroupQuads = kGroupPaths / kQuadPaths;
inline constexpr int kPositionLanes = 4;  // from a position's lanes to the next one's

// A lane's part of the softmax states of a warp's eight paths. Lane 4g + j has both rows of paths j
// and 4 + j: index 2 (path / 4) + row. Of o, it has columns 16k + g and 16k + 8 + g: [path / 4][k]
// [2 (column / 8 % 2) + row]. Of a whole split, m and l have the same bits in all g.
template <int kHeadDim>
struct TransposedState {
  static constexpr int kRows = 2 * kGroupQuads;

  float m[kRows];
  float l[kRows];
  float o[kGroupQuads][kHeadDim / 16][4];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      m[i] = -INFINITY;
      l[i] = 0;
    }
#pragma unroll
    for (int quad = 0; quad < kGroupQuads; ++quad) {
#pragma unroll
      for (int k = 0; k < kHeadDim / 16; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) o[quad][k][i] = 0;
      }
    }
  }
};

// The same bits as BufferSplit, by half as many products. The K of two paths are the 16 rows of a
// product, and the queries of four paths, two rows each, its columns: a lane keeps those scores
// that are of a row and a key of one path. Then 16 columns of the V of the two paths are the rows
// of a product, whose columns are the weights of the same four paths: zero for the other two.
//
// Zero times infinity is not zero: see BufferSplit.
template <int kHeadDim, typename Reader>
class TransposedBufferSplit {
  using Stage = BufferStage<kHeadDim>;
  using State = TransposedState<kHeadDim>;
  static constexpr int kRows = State::kRows;
  static constexpr int kSteps = kHeadDim / 16;
  static constexpr int kQuadPairs = kQuadPaths / 2;
  using OfRows = float[kRows];
  using Sums = float[kSteps][4];

 public:
  // Row g attends to tile.visible_query positions, row g + 8 to tile.visible_buffer. `queries`:
  // address of those of the tile, in the order of the keys of a key block.
  __device__ __forceinline__ TransposedBufferSplit(const Tile& tile, int group, uint32_t queries)
      : visible_{tile.visible_query, tile.visible_buffer},
        group_(group),
        in_use_(group < tile.groups),
        queries_(queries) {}

  // Attends to the chunks of a split, whose stages the ring has, and sets `state`, if the group is
  // in use.
  __device__ __forceinline__ void Attend(int positions, int split, Reader& ring,
                                         State& state) const {
    int first = split * kBufferChunk;
    OfRows scale;
    uint32_t weights[kGroupQuads];
    TakeKeys</*kIsFirst=*/true>(first, ring, state.m, state.l, scale, weights);
    TakeValues(ring, weights, [&](int quad, int k, int i, float sum) {
      state.o[quad][k][i] = sum + 0.0f;  // never -0
    });
#pragma unroll 1
    while ((first += kMaxBufferSplits * kBufferChunk) < positions) {
      TakeKeys</*kIsFirst=*/false>(first, ring, state.m, state.l, scale, weights);
      TakeValues(ring, weights, [&](int quad, int k, int i, float sum) {
        float& o = state.o[quad][k][i];
        o = fmaf(o, scale[2 * quad + i % 2], sum);
      });
    }
    SumOverLanes<kBufferChunk / 2, 2 * kPositionLanes>(state.l);
  }

  // Attends to a split of one chunk, and combines it with the splits before; with none, `combined`
  // is clear. Without a state of its own for the split, all stays in registers.
  __device__ __forceinline__ void AttendToChunk(int split, Reader& ring, State& combined) const {
    OfRows m;
    OfRows l;
    OfRows unused;
    uint32_t weights[kGroupQuads];
    TakeKeys</*kIsFirst=*/true>(split * kBufferChunk, ring, m, l, unused, weights);
    SumOverLanes<kBufferChunk / 2, 2 * kPositionLanes>(l);
    CombineScale scale[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      scale[i] = CombineMax(combined.m[i], m[i]);
      combined.l[i] = CombineSum(combined.l[i], l[i], scale[i]);
    }
    TakeValues(ring, weights, [&](int quad, int k, int i, float sum) {
      float& o = combined.o[quad][k][i];  // never -0, whether `sum` is or not
      o = CombineSum(o, sum, scale[2 * quad + i % 2]);
    });
  }

 private:
  // Takes the K of a chunk. Sets the weights, as operands B of products with V. Sets m and l, or,
  // if the chunk is not the split's first, raises m, adds to l, and sets `scale` for what was
  // summed before. Of l, both lanes of two neighbouring positions have their sum.
  template <bool kIsFirst>
  __device__ __forceinline__ void TakeKeys(int first, Reader& ring, OfRows& m, OfRows& l,
                                           OfRows& scale, uint32_t (&weights)[kGroupQuads]) const {
    OfRows s = {};  // of position first + g
    const int keys = ring.Take();
    if (in_use_) MultiplyKeys(Rows(ring, keys), s);
    ring.Release(keys);
    Exponentiate<kIsFirst>(first, s, m, l, scale);
#pragma unroll
    for (int quad = 0; quad < kGroupQuads; ++quad) {
      weights[quad] = TransposeMatrix(PackBf16(s[2 * quad], s[2 * quad + 1]));
    }
  }

  // Takes the V of a chunk. Calls add(quad, k, i, sum) for each element of o, as those of State.
  template <typename Add>
  __device__ __forceinline__ void TakeValues(Reader& ring, const uint32_t (&weights)[kGroupQuads],
                                             const Add& add) const {
    const int stage = ring.Take();
    const uint32_t values = Rows(ring, stage);
    if (in_use_) {
#pragma unroll
      for (int quad = 0; quad < kGroupQuads; ++quad) {
        Sums sums;
        MultiplyValues(values, quad, weights[quad], sums);
        float zero[kSteps] = {};
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
#pragma unroll
          for (int i = 0; i < 4; ++i) zero[k] = fmaf(sums[k][i], 0.0f, zero[k]);
        }
#pragma unroll
        for (int k = 1; k < kSteps; ++k) zero[0] += zero[k];
        const bool finite = zero[0] == 0.0f;
        if (__ballot_sync(kAllLanes, !finite) != 0) {
          MultiplyApart(values, quad, weights[quad], sums);
        }
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
#pragma unroll
          for (int i = 0; i < 4; ++i) add(quad, k, i, sums[k][i]);
        }
      }
    }
    ring.Release(stage);
  }

  // Address of the rows of the group's paths in a stage.
  __device__ __forceinline__ uint32_t Rows(const Reader& ring, int stage) const {
    return ring.Address(stage) + group_ * kGroupPaths * Stage::kRowBytes;
  }

  // s = the scores.
  __device__ __forceinline__ void MultiplyKeys(uint32_t stage, OfRows& s) const {
    const int matrix = LaneIndex() / 8;
    const int in_matrix = LaneIndex() % 8;
    // Matrices are the first 8 inputs of the first path of a pair and of the second one, then the
    // next 8 of both.
    const uint32_t keys =
        stage + in_matrix * Stage::kPositionBytes + matrix % 2 * Stage::kRowBytes + matrix / 2 * 16;
#pragma unroll
    for (int quad = 0; quad < kGroupQuads; ++quad) {
      const int row =
          group_ * kGroupRows + quad * kQuadPaths + in_matrix / 2 + in_matrix % 2 * kGroupPaths;
      uint32_t q[kSteps / 2][4];  // each of 32 inputs
#pragma unroll
      for (int i = 0; i < kSteps / 2; ++i) {
        LoadMatrices(queries_ + 2 * KeyBlockKeyAt(row, 32 * i + matrix * 8, kHeadDim), q[i]);
      }
#pragma unroll
      for (int pair = 0; pair < kQuadPairs; ++pair) {
        float of_pair[4];
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          uint32_t k[4];
          LoadMatrices(keys + (quad * kQuadPaths + 2 * pair) * Stage::kRowBytes + 32 * step, k);
          const uint32_t(&b)[4] = q[step / 2];
          Multiply(step == 0, of_pair, k, b[step % 2 * 2], b[step % 2 * 2 + 1]);
        }
        const int own = LaneIndex() % 4 - 2 * pair;  // the path of the pair that the lane has
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          float& score = s[2 * quad + row];
          score = own == 0 ? of_pair[row] : own == 1 ? of_pair[2 + row] : score;
        }
      }
    }
  }

  // As BufferSplit::Exponentiate.
  template <bool kIsFirst>
  __device__ __forceinline__ void Exponentiate(int first, OfRows& s, OfRows& m, OfRows& l,
                                               OfRows& scale) const {
    const int position = LaneIndex() / kPositionLanes;
    OfRows largest;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (first + position >= visible_[i % 2]) s[i] = -INFINITY;
      largest[i] = fmaxf(s[i], -INFINITY);  // not NaN
    }
    MaxOverLanes<kBufferChunk, kPositionLanes>(largest);
    OfRows of_neighbour;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float raised = kIsFirst ? largest[i] : fmaxf(m[i], largest[i]);
      if (!kIsFirst) scale[i] = raised == -INFINITY ? 1.0f : Exp2(m[i] - raised);
      m[i] = raised;
      // A row without positions so far has m = -inf, and all its scores are -inf.
      s[i] = s[i] == -INFINITY ? 0.0f : Exp2(s[i] - m[i]);
      of_neighbour[i] = __shfl_xor_sync(kAllLanes, s[i], kPositionLanes);
    }
    const bool is_even = position % 2 == 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      l[i] = kIsFirst ? 0.0f : l[i] * scale[i];
      l[i] += is_even ? s[i] : of_neighbour[i];
      l[i] += is_even ? of_neighbour[i] : s[i];
    }
  }

  // Address of a lane's row for ldmatrix: matrices are the first 8 columns of the first path of a
  // pair and the next 8, then those of the second path.
  __device__ __forceinline__ uint32_t ValuesAt(uint32_t stage, int path) const {
    const int matrix = LaneIndex() / 8;
    return stage + LaneIndex() % 8 * Stage::kPositionBytes +
           (path + matrix / 2) * Stage::kRowBytes + matrix % 2 * 16;
  }

  __device__ __forceinline__ void MultiplyValues(uint32_t stage, int quad, uint32_t weights,
                                                 Sums& sums) const {
    const int own = LaneIndex() / 8;  // path of the quad whose weights the lane has
#pragma unroll
    for (int pair = 0; pair < kQuadPairs; ++pair) {
      const uint32_t first = own == 2 * pair ? weights : 0;
      const uint32_t second = own == 2 * pair + 1 ? weights : 0;
      const uint32_t values = ValuesAt(stage, quad * kQuadPaths + 2 * pair);
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        uint32_t v[4];
        LoadMatricesTransposed(values + 32 * k, v);
        Multiply(pair == 0, sums[k], v, first, second);
      }
    }
  }

  __device__ __forceinline__ void MultiplyApart(uint32_t stage, int quad, uint32_t weights,
                                                Sums& sums) const {
#pragma unroll 1
    for (int path = 0; path < kQuadPaths; ++path) {
      const uint32_t own_weights = LaneIndex() / 8 == path ? weights : 0;
      const uint32_t values = ValuesAt(stage, quad * kQuadPaths + path / 2 * 2);
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        uint32_t v[4];
        LoadMatricesTransposed(values + 32 * k, v);
        float of_path[4] = {};
        Mma(of_path, path % 2 == 0 ? v[0] : v[2], path % 2 == 0 ? v[1] : v[3], own_weights);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums[k][i] = LaneIndex() % 4 == path ? of_path[i] : sums[k][i];
        }
      }
    }
  }

  // c = a b, if it is the `first` product of a sum; c += a b, if not.
  __device__ __forceinline__ static void Multiply(bool first, float (&c)[4], const uint32_t (&a)[4],
                                                  uint32_t b0, uint32_t b1) {
    if (first) {
      MmaFromZero(c, a[0], a[1], a[2], a[3], b0, b1);
    } else {
      Mma(c, a[0], a[1], a[2], a[3], b0, b1);
    }
  }

  const int visible_[2];
  const int group_;
  const bool in_use_;
  const uint32_t queries_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ATTENTION_TRANSPOSED_BUFFER_SPLIT_CUH_
