// The warps of a block of WgmmaLayerKernel (compute capability 9.0): the producer and the
// consumers.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_CUH_

#include "kernels/cuda/layer/combine_splits.cuh"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layer/layer_wgmma_sm90.h"
#include "kernels/cuda/layer/producer_sm90.cuh"
#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/cuda/layer/store_qkv.cuh"
#include "kernels/cuda/layer/weight_ring.cuh"
#include "kernels/cuda/layer/wgmma_rows.cuh"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"

namespace chorale::kernels::cuda {

struct WgmmaLayerParams {
  LayerParams layer;
  WgmmaSmem shared;
};

// Copies vectors, weights and x to shared memory. Called by one warp. Vectors and weights, which no
// kernel writes, are copied before GridDepWait.
template <int kRows>
__device__ __forceinline__ void ProducerWarp(const WgmmaLayerParams& params, const WeightRing& ring,
                                             int tile_index, int first_group) {
  const LayerParams& p = params.layer;
  const WgmmaSmem& shared = params.shared;
  const int lane = LaneIndex();
  const int row_bytes = 4 * p.shape.width;
  WeightLoader weights(p, p.post_attention.wgmma_tiles, p.pre_attention.wgmma_tiles, ring);
  if (lane == 0) {
    CopyVectors(params, kRows * row_bytes);
    weights.Fill(ring.stages);
  }
  __syncwarp();
  GridDepWait();
  // Also rows that are not in use; no output depends on those.
  const int64_t first_row = FirstRowOf(tile_index, first_group);
#pragma unroll 1
  for (int row = lane; row < kRows; row += kWarpSize) {
    CpAsyncBulk(DynamicSmem() + shared.x.offset + 4 * row * shared.x_stride,
                p.x + (first_row + row) * p.shape.width, row_bytes, InputsReadyOf(params));
  }
  if (lane == 0) CopyWeights(params, tile_index, first_group, ring, weights);
}

// The consumer warps, on the rows of kGroups groups of a tile. D is at most kWidthTiles weight
// tiles wide.
template <int kGroups, int kWidthTiles>
class WgmmaLayerBlock {
  static constexpr int kRows = kGroups * kGroupRows;

 public:
  __device__ __forceinline__ WgmmaLayerBlock(const WgmmaLayerParams& params, const WeightRing& ring,
                                             int tile_index, int first_group)
      : params_(params),
        p_(params.layer),
        tile_index_(tile_index),
        first_group_(first_group),
        rows_(params.layer, params.shared),
        ring_(ring, WarpgroupIndex()) {}

  __device__ __forceinline__ void Run() {
    const bool has_post = p_.part != LayerPart::kPreAttention;
    const bool has_pre = p_.part != LayerPart::kPostAttention;
    TileSplits splits(p_.tiles + tile_index_);
    PartialSource source;
    if (has_post && p_.attended == nullptr) {
      source =
          PartialSource(p_, first_row() + WarpIndex(), LaneIndex() * 4, params_.shared.head_shift);
    }
    PinValue(splits.context);
    PinValue(splits.buffers);
    source.Pin();
    GridDepWait();
    tile_ = LoadCg<Tile>(p_.tiles + tile_index_);
    if (has_post) FillWithAttention(source, splits);
    if (rows_in_use() <= 0) return;
    MbarrierWait(InputsReadyOf(params_), 0);
    if (!has_post) FillA();
    rows_.SyncA();
    const LayerGemm last = LastGemm(has_pre);
    const LayerGemm last_into_x = LastGemmIntoX(has_pre);
    // Output projection, LN2, MLP up, GELU, MLP down, LN3; feature attention, LN1, QKV projection.
#pragma unroll 1
    for (LayerGemm gemm = FirstGemm(has_post); gemm <= last; gemm = NextGemm(gemm)) {
      rows_.Multiply(gemm, ring_, p_.x + first_row() * p_.shape.width,
                     gemm == last_into_x ? rows_in_use() : 0);
    }
    if (has_pre) {
      StoreQkvRows<kGroups, kConsumerWarps>(
          {tile_, tile_index_, first_group_ * kGroupRows, rows_in_use()},
          QkvTarget(p_, params_.shared.head_shift), rows_.qkv(), params_.shared.qkv_inputs);
    }
  }

 private:
  __device__ __forceinline__ int64_t first_row() const {
    return FirstRowOf(tile_index_, first_group_);
  }
  __device__ __forceinline__ int rows_in_use() const {
    return min(kRows, (tile_.groups - first_group_) * kGroupRows);
  }

  // a = x.
  __device__ __forceinline__ void FillA() const {
#pragma unroll 1
    for (int row = WarpIndex(); row < kRows; row += kConsumerWarps) {
#pragma unroll 1
      for (int column = LaneIndex() * 4; column < WeightTilesOf(p_.shape.width) * kWeightTileInputs;
           column += kWarpSize * 4) {
        Floats4 x = {};
        if (column < p_.shape.width) x = LoadAs<Floats4>(rows_.x(row) + column);
        rows_.StoreA(row, column, x);
      }
    }
  }

  // a = attention: the states of its splits, combined in their order, unless it is there as such.
  // Rows or splits are loaded together, as many as registers allow. `source`: the warp's first row,
  // the lane's first columns.
  __device__ __forceinline__ void FillWithAttention(const PartialSource& source,
                                                    const TileSplits& splits) const {
    constexpr int kWarpRows = kRows / kConsumerWarps;
    if (p_.attended != nullptr) {
      constexpr int kTogether = kWarpRows < 4 ? kWarpRows : 4;
      const int width = p_.shape.query_width();
      const uint16_t* const first = p_.attended + (first_row() + WarpIndex()) * width;
      FillRows<kTogether>([&](int row, int column, Floats4(&attention)[kTogether]) {
        LoadAttended(first + row * width + column + LaneIndex() * 4, kConsumerWarps * width,
                     attention);
      });
    } else if (p_.split == KvSplit::kSingle) {
      CombineRows<kWarpRows, 1>(source, {});
    } else {
      CombineRows<2, kSplitsTogether>(source, splits);
    }
  }

  template <int kTogether, int kSplits>
  __device__ __forceinline__ void CombineRows(const PartialSource& source,
                                              const TileSplits& splits) const {
    FillRows<kTogether>([&](int row, int column, Floats4(&combined)[kTogether]) {
      CombineElements<kTogether, kSplits>(
          p_.shape, splits, source.At(p_.shape, row, column, params_.shared.head_shift),
          kConsumerWarps, combined);
    });
  }

  // a = rows of attention. load(row, column, o) loads four columns of kTogether rows of the warp:
  // `row` further than its first one, and kConsumerWarps rows apart; `column` further than the
  // lane's first ones.
  template <int kTogether, typename Load>
  __device__ __forceinline__ void FillRows(const Load& load) const {
    const int width = p_.shape.query_width();
    constexpr int kColumns = 4 * kWarpSize;
#pragma unroll 1
    for (int first = 0; first < WeightTilesOf(width) * kWeightTileInputs; first += kColumns) {
      const int column = first + LaneIndex() * 4;
#pragma unroll 1
      for (int row = 0; row < kRows; row += kTogether * kConsumerWarps) {
        Floats4 attention[kTogether] = {};
        if (column < width) load(row, first, attention);
#pragma unroll
        for (int r = 0; r < kTogether; ++r) {
          rows_.StoreA(row + WarpIndex() + r * kConsumerWarps, column, attention[r]);
        }
      }
    }
  }

  const WgmmaLayerParams& params_;
  const LayerParams& p_;
  const int tile_index_;
  const int first_group_;
  Tile tile_;
  const WgmmaRows<kGroups, kWidthTiles> rows_;
  RingConsumer ring_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_CUH_
