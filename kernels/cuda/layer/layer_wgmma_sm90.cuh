// The warps of a block of WgmmaLayerKernel (compute capability 9.0): the producer and the
// consumers.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_CUH_

#include "kernels/cuda/layer/combine_splits.cuh"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layer/layer_wgmma_sm90.h"
#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/cuda/layer/store_qkv.cuh"
#include "kernels/cuda/layer/weight_ring.cuh"
#include "kernels/cuda/layer/wgmma_rows.cuh"
#include "kernels/cuda/layout/kv_split.h"
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

__device__ __forceinline__ WeightRing RingOf(const WgmmaLayerParams& params) {
  static_assert(sizeof(Mbarrier) == sizeof(uint64_t));
  Mbarrier* const barriers = params.shared.ring_barriers.At(DynamicSmem());
  const int stages = params.shared.stages;
  return {params.shared.ring.At(DynamicSmem()), barriers, barriers + stages, stages};
}

__device__ __forceinline__ Mbarrier* InputsReadyOf(const WgmmaLayerParams& params) {
  return params.shared.inputs_ready.At(DynamicSmem());
}

// Fills the ring with the wgmma tiles of a launch, in the order in which the consumers read them.
class WeightLoader {
 public:
  __device__ __forceinline__ WeightLoader(const LayerParams& p, const WeightRing& ring)
      : ring_(ring) {
    const auto post_attention = static_cast<int>(PostAttentionTiles(p.shape));
    const auto pre_attention = static_cast<int>(PreAttentionTiles(p.shape));
    // A weight tile takes a stage for each consumer warpgroup.
    post_stages_ = p.part == LayerPart::kPreAttention ? 0 : post_attention * kConsumerWarpgroups;
    pre_stages_ = p.part == LayerPart::kPostAttention ? 0 : pre_attention * kConsumerWarpgroups;
    next_ = reinterpret_cast<const char*>(p.post_attention.wgmma_tiles);
    pre_attention_ = reinterpret_cast<const char*>(p.pre_attention.wgmma_tiles);
  }

  // Fills the next `stages` stages, or all that are left.
  __device__ __forceinline__ void Fill(int stages) {
    for (; stages > 0 && left() > 0; --stages) {
      if (filled_ == post_stages_) next_ = pre_attention_;
      ring_.Fill(next_);
      next_ += kStageBytes;
      ++filled_;
    }
  }

  __device__ __forceinline__ int filled() const { return filled_; }
  __device__ __forceinline__ int left() const { return post_stages_ + pre_stages_ - filled_; }

 private:
  RingProducer ring_;
  int post_stages_;
  int pre_stages_;
  int filled_ = 0;
  const char* next_;
  const char* pre_attention_;
};

// Index of a block's first row among the rows of all tiles.
__device__ __forceinline__ int64_t FirstRowOf(int tile_index, int first_group) {
  return static_cast<int64_t>(tile_index) * kTileRows + first_group * kGroupRows;
}

// Copies vectors, weights and x to shared memory. Called by one warp. Vectors and weights, which no
// kernel writes, are copied before GridDepWait.
template <int kRows>
__device__ __forceinline__ void ProducerWarp(const WgmmaLayerParams& params, const WeightRing& ring,
                                             int tile_index, int first_group) {
  const LayerParams& p = params.layer;
  const WgmmaSmem& shared = params.shared;
  Mbarrier* const inputs_ready = InputsReadyOf(params);
  const int lane = LaneIndex();
  const int row_bytes = 4 * p.shape.width;
  WeightLoader weights(p, ring);
  if (lane == 0) {
    const int post_bytes =
        p.part == LayerPart::kPreAttention ? 0 : 4 * PostAttentionVectorsSize(p.shape);
    const int pre_bytes =
        p.part == LayerPart::kPostAttention ? 0 : 4 * PreAttentionVectorsSize(p.shape);
    MbarrierArriveExpectTx(inputs_ready, post_bytes + pre_bytes + kRows * row_bytes);
    if (post_bytes > 0) {
      CpAsyncBulk(shared.post_vectors.At(DynamicSmem()), p.post_attention.vectors, post_bytes,
                  inputs_ready);
    }
    if (pre_bytes > 0) {
      CpAsyncBulk(shared.pre_vectors.At(DynamicSmem()), p.pre_attention.vectors, pre_bytes,
                  inputs_ready);
    }
    weights.Fill(ring.stages);
  }
  __syncwarp();
  GridDepWait();
  // Also rows that are not in use; no output depends on those.
  const int64_t first_row = FirstRowOf(tile_index, first_group);
#pragma unroll 1
  for (int row = lane; row < kRows; row += kWarpSize) {
    CpAsyncBulk(DynamicSmem() + shared.x.offset + 4 * row * shared.x_stride,
                p.x + (first_row + row) * p.shape.width, row_bytes, inputs_ready);
  }
  if (lane > 0) return;
  if (LoadCg<int32_t>(&p.tiles[tile_index].groups) > first_group) {
    weights.Fill(weights.left());
  } else {
    // A block must not end while copies to its shared memory are in flight.
    for (int i = 0; i < weights.filled(); ++i) MbarrierWait(ring.full + i, 0);
    MbarrierWait(inputs_ready, 0);
  }
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
    int splits = SplitsOfTile(p_.tiles + tile_index_);
    PartialSource source;
    if (has_post && p_.attended == nullptr) {
      source =
          PartialSource(p_, first_row() + WarpIndex(), LaneIndex() * 4, params_.shared.head_shift);
    }
    PinValue(splits);
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
          {tile_, tile_index_, first_group_ * kGroupRows, rows_in_use()}, p_,
          params_.shared.head_shift, rows_.qkv(), params_.shared.qkv_inputs);
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
  __device__ __forceinline__ void FillWithAttention(const PartialSource& source, int splits) const {
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
      CombineRows<kWarpRows, 1>(source, 1);
    } else {
      CombineRows<2, kSplitsTogether>(source, splits);
    }
  }

  template <int kTogether, int kSplits>
  __device__ __forceinline__ void CombineRows(const PartialSource& source, int num_splits) const {
    FillRows<kTogether>([&](int row, int column, Floats4(&combined)[kTogether]) {
      CombineElements<kTogether, kSplits>(
          p_.shape, num_splits, source.At(p_.shape, row, column, params_.shared.head_shift),
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
