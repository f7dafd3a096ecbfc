// What a block of the row kernel that takes products of warpgroups does.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_CUH_

#include "kernels/cuda/layer/combine_splits.cuh"
#include "kernels/cuda/layer/layer_wgmma_sm90.h"
#include "kernels/cuda/layer/smem_wgmma_sm90.h"
#include "kernels/cuda/layer/store_qkv.cuh"
#include "kernels/cuda/layer/weight_ring.cuh"
#include "kernels/cuda/layer/wgmma_rows.cuh"
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
  LayerParams rows;
  WgmmaSmem shared;
};

__device__ __forceinline__ WeightRing RingOf(const WgmmaLayerParams& params) {
  auto* mbarriers = reinterpret_cast<Mbarrier*>(DynamicSmem() + params.shared.mbarriers);
  const int stages = params.shared.stages;
  return {DynamicSmem() + params.shared.ring, mbarriers, mbarriers + stages, stages};
}

__device__ __forceinline__ Mbarrier* InputsReadyOf(const WgmmaLayerParams& params) {
  return reinterpret_cast<Mbarrier*>(DynamicSmem() + params.shared.inputs_ready);
}

// The weights of the stages that are run, in the order in which WgmmaLayerBlock takes them.
class WeightLoader {
 public:
  __device__ __forceinline__ WeightLoader(const LayerParams& p, const WeightRing& ring)
      : ring_(ring) {
    const auto post_attention =
        static_cast<int>(PostAttentionTiles(p.width, p.heads * p.head_dim, p.hidden));
    const auto pre_attention = static_cast<int>(PreAttentionTiles(p.width, QkvWidth(p)));
    // A weight tile has a stage for each reader.
    post_vectors_ = p.part == LayerPart::kPreAttention ? 0 : post_attention * kConsumerWarpgroups;
    pre_vectors_ = p.part == LayerPart::kPostAttention ? 0 : pre_attention * kConsumerWarpgroups;
    next_ = reinterpret_cast<const char*>(p.post_attention.wgmma_tiles);
    more_ = reinterpret_cast<const char*>(p.pre_attention.wgmma_tiles);
  }

  // So many stages more, or all that are left.
  __device__ __forceinline__ void Fill(int stages) {
    for (; stages > 0 && left() > 0; --stages) {
      if (filled_ == post_vectors_) next_ = more_;
      ring_.Fill(next_);
      next_ += kStageBytes;
      ++filled_;
    }
  }

  __device__ __forceinline__ int filled() const { return filled_; }
  __device__ __forceinline__ int left() const { return post_vectors_ + pre_vectors_ - filled_; }

 private:
  RingProducer ring_;
  int post_vectors_;  // stages
  int pre_vectors_;
  int filled_ = 0;
  const char* next_;
  const char* more_;
};

// Of a block's rows, the first one among those of all tiles.
__device__ __forceinline__ int64_t FirstRowOf(int tile_index, int first_group) {
  return static_cast<int64_t>(tile_index) * kTileRows + first_group * kGroupRows;
}

// Brings a block what it needs of x, vectors and weights, by one warp. Vectors and weights, which
// no kernel writes, are on their way before the kernel ahead has ended.
template <int kRows>
__device__ __forceinline__ void ProducerWarp(const WgmmaLayerParams& params, const WeightRing& ring,
                                             int tile_index, int first_group) {
  const LayerParams& p = params.rows;
  const WgmmaSmem& shared = params.shared;
  Mbarrier* const inputs_ready = InputsReadyOf(params);
  const int lane = LaneIndex();
  const int row_bytes = 4 * p.width;
  WeightLoader filler(p, ring);
  if (lane == 0) {
    const int finish_bytes =
        p.part == LayerPart::kPreAttention ? 0 : 4 * PostAttentionVectorsSize(p);
    const int leave_bytes =
        p.part == LayerPart::kPostAttention ? 0 : 4 * PreAttentionVectorsSize(p);
    MbarrierArriveExpectTx(inputs_ready, finish_bytes + leave_bytes + kRows * row_bytes);
    if (finish_bytes > 0) {
      CpAsyncBulk(DynamicSmem() + shared.post_attention, p.post_attention.vectors, finish_bytes,
                  inputs_ready);
    }
    if (leave_bytes > 0) {
      CpAsyncBulk(DynamicSmem() + shared.pre_attention, p.pre_attention.vectors, leave_bytes,
                  inputs_ready);
    }
    filler.Fill(ring.stages);
  }
  __syncwarp();
  GridDepWait();
  // Rows that are not in use come all the same; nothing that is kept depends on them.
  const int64_t first_row = FirstRowOf(tile_index, first_group);
#pragma unroll 1
  for (int row = lane; row < kRows; row += kWarpSize) {
    CpAsyncBulk(DynamicSmem() + shared.x + 4 * row * shared.x_stride,
                p.x + (first_row + row) * p.width, row_bytes, inputs_ready);
  }
  if (lane > 0) return;
  if (LoadCg<int32_t>(&p.tiles[tile_index].groups) > first_group) {
    filler.Fill(filler.left());
  } else {
    // A block does not end while something is on its way to it.
    for (int i = 0; i < filler.filled(); ++i) MbarrierWait(ring.full + i, 0);
    MbarrierWait(inputs_ready, 0);
  }
}

// By kConsumerWarps warps, with the rows of kGroups groups of a tile. D is at most kWidthTiles
// weight tiles wide.
template <int kGroups, int kWidthTiles>
class WgmmaLayerBlock {
  static constexpr int kRows = kGroups * kGroupRows;

 public:
  __device__ __forceinline__ WgmmaLayerBlock(const WgmmaLayerParams& params, const WeightRing& ring,
                                             int tile_index, int first_group)
      : params_(params),
        p_(params.rows),
        tile_index_(tile_index),
        first_group_(first_group),
        rows_(params.rows, params.shared),
        ring_(ring, WarpgroupIndex()) {}

  __device__ __forceinline__ void Run() {
    const bool finishes = p_.part != LayerPart::kPreAttention;
    const bool leaves = p_.part != LayerPart::kPostAttention;
    // No kernel changes the context's rows.
    auto splits =
        static_cast<int>(ContextSplits(LoadCg<int32_t>(&p_.tiles[tile_index_].context_rows)));
    PartialSource source;
    if (finishes) {
      source =
          PartialSource(p_, first_row() + WarpIndex(), LaneIndex() * 4, params_.shared.head_shift);
    }
    PinValue(splits);
    source.Compute();
    GridDepWait();
    tile_ = LoadCg<Tile>(p_.tiles + tile_index_);
    if (finishes) CombineSplits(source, splits);
    if (rows_in_use() <= 0) return;
    MbarrierWait(InputsReadyOf(params_), 0);
    if (!finishes) FillA();
    rows_.SyncA();
    auto product =
        static_cast<int>(finishes ? LayerGemm::kOutputProjection : LayerGemm::kFeatureAttention);
    const auto last = static_cast<int>(leaves ? LayerGemm::kQkvProjection : LayerGemm::kMlpDown);
    const auto kept = static_cast<int>(leaves ? LayerGemm::kFeatureAttention : LayerGemm::kMlpDown);
#pragma unroll 1
    for (; product <= last; ++product) {
      rows_.Multiply(static_cast<LayerGemm>(product), ring_, p_.x + first_row() * p_.width,
                     product == kept ? rows_in_use() : 0);
    }
    if (leaves) {
      StoreQkv<kGroups, kConsumerWarps>(
          {tile_, tile_index_, first_group_ * kGroupRows, rows_in_use()}, p_,
          params_.shared.head_shift, rows_.qkv_smem(), params_.shared.qkv_smem);
    }
  }

 private:
  __device__ __forceinline__ int64_t first_row() const {
    return FirstRowOf(tile_index_, first_group_);
  }
  __device__ __forceinline__ int rows_in_use() const {
    return min(kRows, (tile_.groups - first_group_) * kGroupRows);
  }

  // operand = x.
  __device__ __forceinline__ void FillA() const {
#pragma unroll 1
    for (int row = WarpIndex(); row < kRows; row += kConsumerWarps) {
#pragma unroll 1
      for (int column = LaneIndex() * 4; column < WeightTilesOf(p_.width) * kWeightTileInputs;
           column += kWarpSize * 4) {
        Floats4 x = {};
        if (column < p_.width) x = LoadAs<Floats4>(rows_.x(row) + column);
        rows_.StoreA(row, column, x);
      }
    }
  }

  // operand = attention, from the states of its splits in their order: as many loads in flight as
  // registers allow, of rows or of splits. `source`: of the warp's first row and the lane's first
  // columns.
  __device__ __forceinline__ void CombineSplits(const PartialSource& source, int splits) const {
    if (p_.split == KvSplit::kSingle) {
      CombineRows<kRows / kConsumerWarps, 1>(source, 1);
    } else {
      CombineRows<2, kMinSplits>(source, splits);
    }
  }

  template <int kTogether, int kSplits>
  __device__ __forceinline__ void CombineRows(const PartialSource& source, int num_splits) const {
    const int width = p_.heads * p_.head_dim;
    constexpr int kColumns = 4 * kWarpSize;
#pragma unroll 1
    for (int first = 0; first < WeightTilesOf(width) * kWeightTileInputs; first += kColumns) {
      const int column = first + LaneIndex() * 4;
#pragma unroll 1
      for (int row = 0; row < kRows; row += kTogether * kConsumerWarps) {
        Floats4 combined[kTogether] = {};
        if (column < width) {
          CombineElements<kTogether, kSplits>(p_, num_splits,
                                              source.At(p_, row, first, params_.shared.head_shift),
                                              kConsumerWarps, combined);
        }
#pragma unroll
        for (int r = 0; r < kTogether; ++r) {
          rows_.StoreA(row + WarpIndex() + r * kConsumerWarps, column, combined[r]);
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
