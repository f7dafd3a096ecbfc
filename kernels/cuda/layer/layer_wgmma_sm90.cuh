// What a block of the row kernel that takes products of warpgroups does.
#ifndef CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_CUH_
#define CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_CUH_

#include "kernels/cuda/attention/combine_splits.cuh"
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

struct RowProductParams {
  RowLayerParams rows;
  RowProductLayout shared;
};

__device__ __forceinline__ StageRing RingOf(const RowProductParams& params) {
  auto* arrivals = reinterpret_cast<Mbarrier*>(DynamicSmem() + params.shared.arrivals);
  const int slots = params.shared.stages;
  return {DynamicSmem() + params.shared.ring, arrivals, arrivals + slots, slots};
}

__device__ __forceinline__ Mbarrier* GivenOf(const RowProductParams& params) {
  return reinterpret_cast<Mbarrier*>(DynamicSmem() + params.shared.given);
}

// The weights of the stages that are run, in the order in which RowProductBlock takes them.
class WeightFiller {
 public:
  __device__ __forceinline__ WeightFiller(const RowLayerParams& p, const StageRing& ring)
      : ring_(ring) {
    const auto finish = static_cast<int>(FinishSlabs(p.width, p.heads * p.head_dim, p.hidden));
    const auto leave = static_cast<int>(LeaveSlabs(p.width, ProjectedWidth(p)));
    // A slab has a stage for each reader.
    finish_ = p.stages == RowStages::kLeave ? 0 : finish * kRingReaders;
    leave_ = p.stages == RowStages::kFinish ? 0 : leave * kRingReaders;
    next_ = reinterpret_cast<const char*>(p.finish.quarters);
    more_ = reinterpret_cast<const char*>(p.leave.quarters);
  }

  // So many stages more, or all that are left.
  __device__ __forceinline__ void Fill(int stages) {
    for (; stages > 0 && left() > 0; --stages) {
      if (filled_ == finish_) next_ = more_;
      ring_.Fill(next_);
      next_ += kRowStageBytes;
      ++filled_;
    }
  }

  __device__ __forceinline__ int filled() const { return filled_; }
  __device__ __forceinline__ int left() const { return finish_ + leave_ - filled_; }

 private:
  RingFiller ring_;
  int finish_;  // stages
  int leave_;
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
__device__ __forceinline__ void BringAll(const RowProductParams& params, const StageRing& ring,
                                         int tile_index, int first_group) {
  const RowLayerParams& p = params.rows;
  const RowProductLayout& shared = params.shared;
  Mbarrier* const given = GivenOf(params);
  const int lane = LaneIndex();
  const int row_bytes = 4 * p.width;
  WeightFiller filler(p, ring);
  if (lane == 0) {
    const int finish_bytes = p.stages == RowStages::kLeave ? 0 : 4 * FinishVectorsSize(p);
    const int leave_bytes = p.stages == RowStages::kFinish ? 0 : 4 * LeaveVectorsSize(p);
    MbarrierArriveExpectTx(given, finish_bytes + leave_bytes + kRows * row_bytes);
    if (finish_bytes > 0) {
      CpAsyncBulk(DynamicSmem() + shared.finish, p.finish.vectors, finish_bytes, given);
    }
    if (leave_bytes > 0) {
      CpAsyncBulk(DynamicSmem() + shared.leave, p.leave.vectors, leave_bytes, given);
    }
    filler.Fill(ring.slots);
  }
  __syncwarp();
  GridDepWait();
  // Rows that are not in use come all the same; nothing that is kept depends on them.
  const int64_t first_row = FirstRowOf(tile_index, first_group);
#pragma unroll 1
  for (int row = lane; row < kRows; row += kWarpSize) {
    CpAsyncBulk(DynamicSmem() + shared.x + 4 * row * shared.x_stride,
                p.x + (first_row + row) * p.width, row_bytes, given);
  }
  if (lane > 0) return;
  if (LoadCg<int32_t>(&p.tiles[tile_index].groups) > first_group) {
    filler.Fill(filler.left());
  } else {
    // A block does not end while something is on its way to it.
    for (int i = 0; i < filler.filled(); ++i) MbarrierWait(ring.full + i, 0);
    MbarrierWait(given, 0);
  }
}

// By kProductWarps warps, with the rows of kGroups groups of a tile. D is at most kPanels slabs
// wide.
template <int kGroups, int kPanels>
class RowProductBlock {
  static constexpr int kRows = kGroups * kGroupRows;

 public:
  __device__ __forceinline__ RowProductBlock(const RowProductParams& params, const StageRing& ring,
                                             int tile_index, int first_group)
      : params_(params),
        p_(params.rows),
        tile_index_(tile_index),
        first_group_(first_group),
        rows_(params.rows, params.shared),
        ring_(ring, WarpgroupIndex()) {}

  __device__ __forceinline__ void Run() {
    const bool finishes = p_.stages != RowStages::kLeave;
    const bool leaves = p_.stages != RowStages::kFinish;
    // No kernel changes the context's rows.
    auto chunks =
        static_cast<int>(ContextChunks(LoadCg<int32_t>(&p_.tiles[tile_index_].context_rows)));
    ChunkSource source;
    if (finishes) {
      source =
          ChunkSource(p_, first_row() + WarpIndex(), LaneIndex() * 4, params_.shared.head_shift);
    }
    PinValue(chunks);
    source.Compute();
    GridDepWait();
    tile_ = LoadCg<Tile>(p_.tiles + tile_index_);
    if (finishes) MergeChunks(source, chunks);
    if (rows_in_use() <= 0) return;
    MbarrierWait(GivenOf(params_), 0);
    if (!finishes) FillOperand();
    rows_.SyncOperands();
    auto product = static_cast<int>(finishes ? RowProduct::kAttention : RowProduct::kFeature);
    const auto last = static_cast<int>(leaves ? RowProduct::kProjection : RowProduct::kDown);
    const auto kept = static_cast<int>(leaves ? RowProduct::kFeature : RowProduct::kDown);
#pragma unroll 1
    for (; product <= last; ++product) {
      rows_.Multiply(static_cast<RowProduct>(product), ring_, p_.x + first_row() * p_.width,
                     product == kept ? rows_in_use() : 0);
    }
    if (leaves) {
      LeaveRows<kGroups, kProductWarps>(
          {tile_, tile_index_, first_group_ * kGroupRows, rows_in_use()}, p_,
          params_.shared.head_shift, rows_.projected(), params_.shared.projected);
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
  __device__ __forceinline__ void FillOperand() const {
#pragma unroll 1
    for (int row = WarpIndex(); row < kRows; row += kProductWarps) {
#pragma unroll 1
      for (int column = LaneIndex() * 4; column < SlabsOf(p_.width) * kSlabInputs;
           column += kWarpSize * 4) {
        Floats4 x = {};
        if (column < p_.width) x = LoadAs<Floats4>(rows_.x(row) + column);
        rows_.StoreOperand(row, column, x);
      }
    }
  }

  // operand = attention, from the states of its chunks in their order: as many loads in flight as
  // registers allow, of rows or of chunks. `source`: of the warp's first row and the lane's first
  // columns.
  __device__ __forceinline__ void MergeChunks(const ChunkSource& source, int chunks) const {
    if (p_.split == ChunkSplit::kTogether) {
      MergeRows<kRows / kProductWarps, 1>(source, 1);
    } else {
      MergeRows<2, kFewestChunks>(source, chunks);
    }
  }

  template <int kTogether, int kChunks>
  __device__ __forceinline__ void MergeRows(const ChunkSource& source, int slots) const {
    const int width = p_.heads * p_.head_dim;
    constexpr int kColumns = 4 * kWarpSize;
#pragma unroll 1
    for (int first = 0; first < SlabsOf(width) * kSlabInputs; first += kColumns) {
      const int column = first + LaneIndex() * 4;
#pragma unroll 1
      for (int row = 0; row < kRows; row += kTogether * kProductWarps) {
        Floats4 merged[kTogether] = {};
        if (column < width) {
          MergeElements<kTogether, kChunks>(p_, slots,
                                            source.At(p_, row, first, params_.shared.head_shift),
                                            kProductWarps, merged);
        }
#pragma unroll
        for (int r = 0; r < kTogether; ++r) {
          rows_.StoreOperand(row + WarpIndex() + r * kProductWarps, column, merged[r]);
        }
      }
    }
  }

  const RowProductParams& params_;
  const RowLayerParams& p_;
  const int tile_index_;
  const int first_group_;
  Tile tile_;
  const ProductRows<kGroups, kPanels> rows_;
  RingReader ring_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_LAYER_WGMMA_SM90_CUH_
