// What the row kernel does to the rows of one block, stage by stage.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_MMA_SM80_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_MMA_SM80_CUH_

#include "kernels/cuda/attention/split_state.cuh"
#include "kernels/cuda/layer/combine_splits.cuh"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/layer_norm.cuh"
#include "kernels/cuda/layer/smem_mma_sm80.h"
#include "kernels/cuda/layer/store_qkv.cuh"
#include "kernels/cuda/layer/weight_prefetch.cuh"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/gelu.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

struct MmaLayerParams {
  LayerParams rows;
  MmaSmem shared;
  int32_t block_rows;
};

// The rows of one block on their way through the stages. CombineSplits, FillA and Multiply end
// with all their writes to shared memory done for the whole block; what only loads, or stores a few
// elements, does not.
//
// All products go through the same few hundred instructions, and loops over weight tiles are not
// unrolled: every instruction of this kernel runs a few times in a launch, and code that the
// instruction cache has no room for is fetched again in every launch.
template <int kGroups, int kWidthTiles, int kWarps>
class Rows {
 public:
  static constexpr int kRows = kGroups * kGroupRows;
  static constexpr int kThreads = kWarps * kWarpSize;

  // Reads of the tile only what no kernel changes.
  __device__ __forceinline__ explicit Rows(const MmaLayerParams& params)
      : p_(params.rows),
        a_inputs_(params.shared.a_inputs),
        hidden_qkv_inputs_(params.shared.hidden_qkv_inputs),
        x_stride_(params.shared.x_stride),
        head_shift_(params.shared.head_shift),
        a_smem_(reinterpret_cast<uint16_t*>(DynamicSmem() + params.shared.operand)),
        hidden_qkv_(reinterpret_cast<uint16_t*>(DynamicSmem() + params.shared.hidden_qkv_smem)),
        x_(reinterpret_cast<float*>(DynamicSmem() + params.shared.x)),
        post_vectors_(reinterpret_cast<float*>(DynamicSmem() + params.shared.post_attention)),
        pre_vectors_(reinterpret_cast<float*>(DynamicSmem() + params.shared.pre_attention)),
        rows_(params.block_rows),
        tile_index_(blockIdx.x / (kTileRows / rows_)),
        first_row_(blockIdx.x % (kTileRows / rows_) * rows_),
        num_splits_(p_.split == KvSplit::kSingle ? 1
                                                 : static_cast<int>(ContextSplits(LoadCg<int32_t>(
                                                       &p_.tiles[tile_index_].context_rows)))) {}

  // Asks for the vectors that are added and multiplied with.
  __device__ __forceinline__ void FetchPostAttentionVectors(const float* vectors) const {
    Fetch(post_vectors_, vectors, PostAttentionVectorsSize(p_));
  }
  __device__ __forceinline__ void FetchPreAttentionVectors(const float* vectors) const {
    Fetch(pre_vectors_, vectors, PreAttentionVectorsSize(p_));
  }

  // Asks for x. Rows that are not in use are read all the same, so that nothing waits for the tile;
  // nothing that is kept depends on them.
  __device__ __forceinline__ void Load() {
    const float* x = p_.x + Global(0) * p_.width;
    for (int row = WarpIndex(); row < rows_; row += kWarps) {
      for (int column = LaneIndex() * 4; column < p_.width; column += kWarpSize * 4) {
        CpAsync16(x_ + row * x_stride_ + column, x + row * p_.width + column);
      }
    }
    CpAsyncCommit();
  }

  __device__ __forceinline__ bool idle() const { return rows_in_use_ <= 0; }

  // The block's tile, which stays where it is.
  __device__ __forceinline__ void SetTile(const Tile* tile) {
    tile_ = tile;
    rows_in_use_ = min(rows_, tile->groups * kGroupRows - first_row_);
  }

  __device__ __forceinline__ int tile_index() const { return tile_index_; }

  // operand = x.
  __device__ __forceinline__ void FillA() {
    CpAsyncWait<0>();
    Sync();
    for (int row = WarpIndex(); row < kRows; row += kWarps) {
      for (int column = LaneIndex() * 4; column < WeightTilesOf(p_.width) * kWeightTileInputs;
           column += kWarpSize * 4) {
        Floats4 x = {};
        if (column < p_.width) x = LoadAs<Floats4>(x_ + row * x_stride_ + column);
        StoreA(row, column, x);
      }
    }
    Sync();
  }

  // operand = attention, from the states of its splits in their order.
  __device__ __forceinline__ void CombineSplits() {
    // As many loads in flight as registers allow, of rows or of splits.
    if (num_splits_ == 1) {
      CombineRows<kRowsTogether, 1>();
    } else {
      CombineRows<1, 8>();
    }
    CpAsyncWait<0>();
    Sync();
  }

  // With the next weight tiles of `weights`, of which each warp computes kTiles times 8 outputs.
  // The normalized x also goes back to global memory if `keep`.
  __device__ __forceinline__ void Multiply(LayerGemm product, WeightPrefetch<kWarps>& weights,
                                           bool keep) {
    const bool up = product == LayerGemm::kMlpUp;
    const bool down = product == LayerGemm::kMlpDown;
    const bool into_x = !up && product != LayerGemm::kQkvProjection;
    const uint16_t* operand = down ? hidden_qkv_ : a_smem_;
    const int padded_inputs = down ? hidden_qkv_inputs_ : a_inputs_;
    const float* bias = up     ? post_vectors_ + 5 * p_.width
                        : down ? post_vectors_ + 4 * p_.width
                               : nullptr;
    const int inputs = WeightTilesOf(InputsOf(p_, product));
    const int outputs = OutputsOf(p_, product);
    constexpr int kTiles = WeightPrefetch<kWarps>::kTiles;
    const int lane_column = WarpIndex() * (8 * kTiles) + ThreadIndex() % 4 * 2;
    Fragments<kGroups, 8 / kGroups> fragments;
#pragma unroll 1
    for (int first = 0; first < outputs; first += kWeightTileOutputs) {
      Sums<kGroups> sums[kTiles];
#pragma unroll 1
      for (int k = 0; k < inputs; ++k) {
        // A weight tile's inputs take 4 times 32 of each group of rows.
        weights.AddWeightTile(operand + k * kWeightTileInputs * kGroupRows,
                              padded_inputs * kGroupRows, inputs == 1 && first > 0, fragments,
                              sums);
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
    if (into_x) Normalize(product, keep);
  }

  // Brings q, K and V of a layer from `wide` to where they go.
  __device__ __forceinline__ void Leave() const {
    StoreQkv<kGroups, kWarps>({*tile_, tile_index_, first_row_, rows_in_use_}, p_, head_shift_,
                              hidden_qkv_, hidden_qkv_inputs_);
  }

  // Waits for all threads that work on the rows.
  __device__ __forceinline__ static void Sync() { NamedBarrierSync<kThreads>(kRowsBarrier); }

 private:
  static constexpr int kRowsBarrier = 1;

  __device__ __forceinline__ static void Fetch(float* to, const float* from, int size) {
#pragma unroll 1
    for (int i = ThreadIndex() * 4; i < size; i += kThreads * 4) CpAsync16(to + i, from + i);
  }

  // Rows that a warp merges at a time, kWarps rows apart.
  static constexpr int kRowsTogether = kRows >= 4 * kWarps ? 4 : kRows >= 2 * kWarps ? 2 : 1;

  // x += sums + bias, of columns `column` and column + 1; `bias` may be null.
  __device__ __forceinline__ void AddToX(int column, const float* bias,
                                         const Sums<kGroups>& sums) const {
    Floats2 more = {};
    if (bias != nullptr) more = LoadAs<Floats2>(bias + column);
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
                       {pair.v[0] + (first + more.v[0]), pair.v[1] + (second + more.v[1])});
    }
  }

  // wide = sums; with a bias, wide = gelu(sums + bias). As AddToX.
  __device__ __forceinline__ void StoreHiddenOrQkv(int column, const float* bias,
                                                   const Sums<kGroups>& sums) const {
    const int group = hidden_qkv_inputs_ * kGroupRows;  // elements
    uint16_t* hidden_qkv_smem =
        hidden_qkv_ + MmaOperandAt(LaneIndex() / 4, column, hidden_qkv_inputs_);
    if (bias == nullptr) {
#pragma unroll
      for (int m = 0; m < kGroups; ++m) {
        StoreAs<Words2>(hidden_qkv_smem + m * group,
                        {PackBf16(sums.Total(m, 0), sums.Total(m, 1)),
                         PackBf16(sums.Total(m, 2), sums.Total(m, 3))});
      }
      return;
    }
    const Floats2 more = LoadAs<Floats2>(bias + column);
#pragma unroll
    for (int m = 0; m < kGroups; ++m) {
      float v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = Gelu(sums.Total(m, i) + more.v[i % 2]);
      StoreAs<Words2>(hidden_qkv_smem + m * group, {PackBf16(v[0], v[1]), PackBf16(v[2], v[3])});
    }
  }

  // x = LN(x); operand = x. x also goes back to global memory if `keep`.
  __device__ __forceinline__ void Normalize(LayerGemm product, bool keep) {
    const float* gamma = product == LayerGemm::kOutputProjection ? post_vectors_
                         : product == LayerGemm::kMlpDown        ? post_vectors_ + 2 * p_.width
                                                                 : pre_vectors_;
    constexpr int kTogether = kRowsTogether < 2 ? 2 : kRowsTogether;
    NormalizeRows<kRows, kWarps, kTogether, kWidthTiles>(
        x_, x_stride_, gamma, gamma + p_.width, p_.width, p_.epsilon,
        [&](const int(&rows)[kTogether], int column, const Floats4(&x)[kTogether]) {
          if (keep && column < p_.width) {
#pragma unroll
            for (int r = 0; r < kTogether; ++r) Keep(rows[r], column, x[r]);
          }
#pragma unroll
          for (int r = 0; r < kTogether; r += 2) StoreAPair(rows[r], column, x[r], x[r + 1]);
        });
    Sync();
  }

  __device__ __forceinline__ void Keep(int row, int column, const Floats4& x) {
    if (row < rows_in_use_) StoreAs<Floats4>(p_.x + Global(row) * p_.width + column, x);
  }

  // Of all tiles' rows.
  __device__ __forceinline__ int64_t Global(int row) const {
    return static_cast<int64_t>(tile_index_) * kTileRows + first_row_ + row;
  }

  // operand = x, of columns `column` to column + 3.
  __device__ __forceinline__ void StoreA(int row, int column, const Floats4& x) {
    uint16_t* to = a_smem_ + MmaOperandAt(row, column, a_inputs_);
    StoreAs<uint32_t>(to, PackBf16(x.v[0], x.v[1]));
    StoreAs<uint32_t>(to + 4, PackBf16(x.v[2], x.v[3]));
  }

  // Of that row, of a group's first 8, and of the one 8 below it.
  __device__ __forceinline__ void StoreAPair(int row, int column, const Floats4& x,
                                             const Floats4& below) {
    StoreAs<Words4>(a_smem_ + MmaOperandAt(row, column, a_inputs_),
                    {PackBf16(x.v[0], x.v[1]), PackBf16(below.v[0], below.v[1]),
                     PackBf16(x.v[2], x.v[3]), PackBf16(below.v[2], below.v[3])});
  }

  // operand = attention, of all rows, kTogether of them at a time, and kSplits splits of each.
  template <int kTogether, int kSplits>
  __device__ __forceinline__ void CombineRows() {
    const int width = p_.heads * p_.head_dim;
#pragma unroll 1
    for (int column = LaneIndex() * 4; column < WeightTilesOf(width) * kWeightTileInputs;
         column += kWarpSize * 4) {
#pragma unroll 1
      for (int row = WarpIndex(); row < rows_; row += kTogether * kWarps) {
        Floats4 combined[kTogether] = {};
        if (column < width) {
          CombineElements<kTogether, kSplits>(p_, num_splits_,
                                              PartialSource(p_, Global(row), column, head_shift_),
                                              kWarps, combined);
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
  uint16_t* const a_smem_;
  uint16_t* const hidden_qkv_;
  float* const x_;
  float* const post_vectors_;  // vectors
  float* const pre_vectors_;
  const int rows_;  // of the block: kRows, or 8 of 16
  const int tile_index_;
  const int first_row_;   // of the tile
  const int num_splits_;  // of states to merge
  const Tile* tile_ = nullptr;
  int rows_in_use_ = 0;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_MMA_SM80_CUH_
