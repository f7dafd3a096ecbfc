// The layer for the rows of one block, with mma (compute capability 8.0).
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_MMA_SM80_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_MMA_SM80_CUH_

#include "kernels/cuda/attention/split_state.cuh"
#include "kernels/cuda/layer/combine_splits.cuh"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layer/layer_norm.cuh"
#include "kernels/cuda/layer/smem_mma_sm80.h"
#include "kernels/cuda/layer/store_qkv.cuh"
#include "kernels/cuda/layer/weight_prefetch.cuh"
#include "kernels/cuda/layout/fragments.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/layout/weight_tiles.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/gelu.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

struct MmaLayerParams {
  LayerParams layer;
  MmaSmem shared;
  int32_t block_rows;
};

// The rows of one block. `a` is operand A of a GEMM in shared memory; CombineSplits, FillA and
// Multiply end with a barrier, so that the whole block sees what they wrote there.
//
// All GEMMs run the same few hundred instructions, and loops over weight tiles are not unrolled:
// each instruction of this kernel runs only a few times in a launch, and code that exceeds the
// instruction cache is fetched again in every launch.
template <int kGroups, int kWidthTiles, int kWarps>
class MmaRows {
 public:
  static constexpr int kRows = kGroups * kGroupRows;
  static constexpr int kThreads = kWarps * kWarpSize;

  // May precede GridDepWait: reads only fields of the tile that no kernel changes.
  __device__ __forceinline__ explicit MmaRows(const MmaLayerParams& params)
      : p_(params.layer),
        a_inputs_(params.shared.a_inputs),
        hidden_qkv_inputs_(params.shared.hidden_qkv_inputs),
        x_stride_(params.shared.x_stride),
        head_shift_(params.shared.head_shift),
        a_(params.shared.a.At(DynamicSmem())),
        hidden_qkv_(params.shared.hidden_qkv.At(DynamicSmem())),
        x_(params.shared.x.At(DynamicSmem())),
        post_vectors_(params.shared.post_vectors.At(DynamicSmem())),
        pre_vectors_(params.shared.pre_vectors.At(DynamicSmem())),
        block_rows_(params.block_rows),
        tile_index_(blockIdx.x / (kTileRows / block_rows_)),
        first_row_(blockIdx.x % (kTileRows / block_rows_) * block_rows_),
        splits_(p_.split == KvSplit::kSingle ? TileSplits() : TileSplits(p_.tiles + tile_index_)) {}

  // Start to copy biases, gammas and betas to shared memory.
  __device__ __forceinline__ void FetchPostAttentionVectors(const float* vectors) const {
    Fetch(post_vectors_, vectors, PostAttentionVectorsSize(p_.shape));
  }
  __device__ __forceinline__ void FetchPreAttentionVectors(const float* vectors) const {
    Fetch(pre_vectors_, vectors, PreAttentionVectorsSize(p_.shape));
  }

  // Starts to copy x to shared memory: also of rows that are not in use, so that it need not wait
  // for the tile. No output depends on those.
  __device__ __forceinline__ void FetchX() {
    const float* x = p_.x + GlobalRow(0) * p_.shape.width;
    for (int row = WarpIndex(); row < block_rows_; row += kWarps) {
      for (int column = LaneIndex() * 4; column < p_.shape.width; column += kWarpSize * 4) {
        CpAsync16(x_ + row * x_stride_ + column, x + row * p_.shape.width + column);
      }
    }
    CpAsyncCommit();
  }

  // Whether no row of the block is in use. Requires SetTile.
  __device__ __forceinline__ bool idle() const { return rows_in_use_ <= 0; }

  // `tile` must outlive this object.
  __device__ __forceinline__ void SetTile(const Tile* tile) {
    tile_ = tile;
    rows_in_use_ = min(block_rows_, tile->groups * kGroupRows - first_row_);
  }

  __device__ __forceinline__ int tile_index() const { return tile_index_; }

  // a = x.
  __device__ __forceinline__ void FillA() {
    CpAsyncWait<0>();
    Sync();
    for (int row = WarpIndex(); row < kRows; row += kWarps) {
      for (int column = LaneIndex() * 4; column < WeightTilesOf(p_.shape.width) * kWeightTileInputs;
           column += kWarpSize * 4) {
        Floats4 x = {};
        if (column < p_.shape.width) x = LoadAs<Floats4>(x_ + row * x_stride_ + column);
        StoreA(row, column, x);
      }
    }
    Sync();
  }

  // a = attention: the states of its splits, combined in their order, unless it is there as such.
  __device__ __forceinline__ void CombineSplits() {
    // Rows or splits are loaded together, as many as registers allow.
    if (splits_.context + splits_.buffers == 1 || p_.attended != nullptr) {
      CombineRows<kRowsTogether, 1>();
    } else {
      CombineRows<1, 8>();
    }
    CpAsyncWait<0>();
    Sync();
  }

  // Computes a GEMM with the next weight tiles; each warp computes kTiles times 8 outputs of each.
  // With `store_x`, the normalized x is also stored to global memory.
  __device__ __forceinline__ void Multiply(LayerGemm gemm, WeightPrefetch<kWarps>& weights,
                                           bool store_x) {
    const bool up = gemm == LayerGemm::kMlpUp;
    const bool down = gemm == LayerGemm::kMlpDown;
    const bool into_x = !up && gemm != LayerGemm::kQkvProjection;
    const uint16_t* a = down ? hidden_qkv_ : a_;
    const int padded_inputs = down ? hidden_qkv_inputs_ : a_inputs_;
    const float* bias = up     ? post_vectors_ + kB1At * p_.shape.width
                        : down ? post_vectors_ + kB2At * p_.shape.width
                               : nullptr;
    const int input_tiles = WeightTilesOf(InputsOf(p_.shape, gemm));
    const int outputs = OutputsOf(p_.shape, gemm);
    constexpr int kTiles = WeightPrefetch<kWarps>::kTiles;
    const int lane_column = WarpIndex() * (8 * kTiles) + ThreadIndex() % 4 * 2;
    Fragments<kGroups, 8 / kGroups> fragments;
#pragma unroll 1
    for (int first = 0; first < outputs; first += kWeightTileOutputs) {
      Sums<kGroups> sums[kTiles];
#pragma unroll 1
      for (int k = 0; k < input_tiles; ++k) {
        weights.AddWeightTile(a + k * kWeightTileInputs * kGroupRows, padded_inputs * kGroupRows,
                              /*reuse=*/input_tiles == 1 && first > 0, fragments, sums);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int column = first + lane_column + tile * 8;
        if (!into_x) {
          StoreHiddenOrQkv(column, bias, sums[tile]);
        } else if (column < outputs) {
          AddToX(column, bias, sums[tile]);
        }
      }
    }
    Sync();
    if (into_x) Normalize(gemm, store_x);
  }

  // Stores q, K and V to global memory. Requires Multiply(kQkvProjection).
  __device__ __forceinline__ void StoreQkv() const {
    StoreQkvRows<kGroups, kWarps>({*tile_, tile_index_, first_row_, rows_in_use_},
                                  QkvTarget(p_, head_shift_), hidden_qkv_, hidden_qkv_inputs_);
  }

  // A barrier of the block.
  __device__ __forceinline__ static void Sync() { NamedBarrierSync<kThreads>(kRowsBarrier); }

 private:
  static constexpr int kRowsBarrier = 1;

  __device__ __forceinline__ static void Fetch(float* to, const float* from, int size) {
#pragma unroll 1
    for (int i = ThreadIndex() * 4; i < size; i += kThreads * 4) CpAsync16(to + i, from + i);
  }

  // Rows that a warp loads together in CombineRows, kWarps rows apart.
  static constexpr int kRowsTogether = kRows >= 4 * kWarps ? 4 : kRows >= 2 * kWarps ? 2 : 1;

  // x += sums + bias in columns `column` and column + 1; `bias` may be null.
  __device__ __forceinline__ void AddToX(int column, const float* bias,
                                         const Sums<kGroups>& sums) const {
    Floats2 b = {};
    if (bias != nullptr) b = LoadAs<Floats2>(bias + column);
    float* x = x_ + LaneIndex() / 4 * x_stride_ + column;
    Floats2 pairs[2 * kGroups];
#pragma unroll
    for (int half = 0; half < 2 * kGroups; ++half) {
      pairs[half] = LoadAs<Floats2>(x + half * 8 * x_stride_);
    }
#pragma unroll
    for (int half = 0; half < 2 * kGroups; ++half) {
      const Floats2& pair = pairs[half];
      const float first = sums.Total(half / 2, half % 2 * 2);
      const float second = sums.Total(half / 2, half % 2 * 2 + 1);
      StoreAs<Floats2>(x + half * 8 * x_stride_,
                       {pair.v[0] + (first + b.v[0]), pair.v[1] + (second + b.v[1])});
    }
  }

  // qkv = sums, or with a bias hidden = gelu(sums + bias), in the columns of AddToX.
  __device__ __forceinline__ void StoreHiddenOrQkv(int column, const float* bias,
                                                   const Sums<kGroups>& sums) const {
    const int group = hidden_qkv_inputs_ * kGroupRows;
    uint16_t* to = hidden_qkv_ + MmaOperandAt(LaneIndex() / 4, column, hidden_qkv_inputs_);
    if (bias == nullptr) {
#pragma unroll
      for (int m = 0; m < kGroups; ++m) {
        StoreAs<Words2>(to + m * group, {PackBf16(sums.Total(m, 0), sums.Total(m, 1)),
                                         PackBf16(sums.Total(m, 2), sums.Total(m, 3))});
      }
      return;
    }
    const Floats2 b = LoadAs<Floats2>(bias + column);
#pragma unroll
    for (int m = 0; m < kGroups; ++m) {
      float v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = Gelu(sums.Total(m, i) + b.v[i % 2]);
      StoreAs<Words2>(to + m * group, {PackBf16(v[0], v[1]), PackBf16(v[2], v[3])});
    }
  }

  // x = LN(x); a = x. See Multiply.
  __device__ __forceinline__ void Normalize(LayerGemm gemm, bool store_x) {
    const float* gamma = gemm == LayerGemm::kOutputProjection ? post_vectors_
                         : gemm == LayerGemm::kMlpDown ? post_vectors_ + kGamma3At * p_.shape.width
                                                       : pre_vectors_;
    constexpr int kTogether = kRowsTogether < 2 ? 2 : kRowsTogether;
    NormalizeRows<kRows, kWarps, kTogether, kWidthTiles>(
        x_, x_stride_, gamma, gamma + p_.shape.width, p_.shape.width, p_.epsilon,
        [&](const int(&rows)[kTogether], int column, const Floats4(&x)[kTogether]) {
          if (store_x && column < p_.shape.width) {
#pragma unroll
            for (int r = 0; r < kTogether; ++r) StoreX(rows[r], column, x[r]);
          }
#pragma unroll
          for (int r = 0; r < kTogether; r += 2) StoreAPair(rows[r], column, x[r], x[r + 1]);
        });
    Sync();
  }

  __device__ __forceinline__ void StoreX(int row, int column, const Floats4& x) {
    if (row < rows_in_use_) StoreAs<Floats4>(p_.x + GlobalRow(row) * p_.shape.width + column, x);
  }

  // Index of a row of the block among the rows of all tiles.
  __device__ __forceinline__ int64_t GlobalRow(int row) const {
    return static_cast<int64_t>(tile_index_) * kTileRows + first_row_ + row;
  }

  // a = x in columns `column` to column + 3.
  __device__ __forceinline__ void StoreA(int row, int column, const Floats4& x) {
    uint16_t* to = a_ + MmaOperandAt(row, column, a_inputs_);
    StoreAs<uint32_t>(to, PackBf16(x.v[0], x.v[1]));
    StoreAs<uint32_t>(to + 4, PackBf16(x.v[2], x.v[3]));
  }

  // Likewise of `row`, one of a group's first 8, and of `below`, the row 8 below it.
  __device__ __forceinline__ void StoreAPair(int row, int column, const Floats4& x,
                                             const Floats4& below) {
    StoreAs<Words4>(a_ + MmaOperandAt(row, column, a_inputs_),
                    {PackBf16(x.v[0], x.v[1]), PackBf16(below.v[0], below.v[1]),
                     PackBf16(x.v[2], x.v[3]), PackBf16(below.v[2], below.v[3])});
  }

  // a = attention: loads kSplits splits of kTogether rows together.
  template <int kTogether, int kSplits>
  __device__ __forceinline__ void CombineRows() {
    const int width = p_.shape.heads * p_.shape.head_dim;
#pragma unroll 1
    for (int column = LaneIndex() * 4; column < WeightTilesOf(width) * kWeightTileInputs;
         column += kWarpSize * 4) {
#pragma unroll 1
      for (int row = WarpIndex(); row < block_rows_; row += kTogether * kWarps) {
        Floats4 combined[kTogether] = {};
        if (column < width && p_.attended != nullptr) {
          LoadAttended(p_.attended + GlobalRow(row) * width + column, kWarps * width, combined);
        } else if (column < width) {
          CombineElements<kTogether, kSplits>(
              p_.shape, splits_, PartialSource(p_, GlobalRow(row), column, head_shift_), kWarps,
              combined);
        }
        if constexpr (kTogether == 1) {
          StoreA(row, column, combined[0]);
        } else {
          static_assert(kWarps == 8);  // the second row is the one 8 below the first
#pragma unroll
          for (int r = 0; r < kTogether; r += 2) {
            StoreAPair(row + r * kWarps, column, combined[r], combined[r + 1]);
          }
        }
      }
    }
  }

  const LayerParams& p_;
  const int a_inputs_;
  const int hidden_qkv_inputs_;
  const int x_stride_;
  const int head_shift_;
  uint16_t* const a_;  // see MmaSmem, as the next four
  uint16_t* const hidden_qkv_;
  float* const x_;
  float* const post_vectors_;
  float* const pre_vectors_;
  const int block_rows_;  // kRows, or 8 with kRows = 16
  const int tile_index_;
  const int first_row_;      // of the block in its tile
  const TileSplits splits_;  // to combine
  const Tile* tile_ = nullptr;
  int rows_in_use_ = 0;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_MMA_SM80_CUH_
