// What a block of the row kernel that takes products of warpgroups does.
#ifndef CHORALE_KERNELS_CUDA_ROW_PRODUCT_CUH_
#define CHORALE_KERNELS_CUDA_ROW_PRODUCT_CUH_

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/leave_rows.cuh"
#include "kernels/cuda/merge_chunks.cuh"
#include "kernels/cuda/product_rows.cuh"
#include "kernels/cuda/row_product.h"
#include "kernels/cuda/row_product_layout.h"
#include "kernels/cuda/stage_ring.cuh"

namespace chorale::kernels::cuda {

struct RowProductParams {
  RowLayerParams rows;
  RowProductLayout shared;
  uint32_t ring_inverse;
};

__device__ __forceinline__ StageRing RingOf(const RowProductParams& params) {
  auto* arrivals = reinterpret_cast<Arrivals*>(Shared() + params.shared.arrivals);
  auto* asked = reinterpret_cast<uint32_t*>(Shared() + params.shared.asked);
  const auto stages = static_cast<uint32_t>(params.shared.stages);
  return {Shared() + params.shared.ring, arrivals,      arrivals + stages, asked, stages,
          params.ring_inverse,           kRowStageBytes};
}

// All weights of the stages that are run, in the order in which RowProductBlock takes them.
__device__ __forceinline__ void FillRing(const RowProductParams& params, const StageRing& ring) {
  const RowLayerParams& p = params.rows;
  RingFiller filler(ring);
  if (p.stages != RowStages::kLeave) {
    const int64_t slabs = FinishSlabs(p.width, int64_t{p.heads} * p.head_dim, p.hidden);
    filler.FillSlabs(p.finish.quarters, static_cast<int>(slabs));
  }
  if (p.stages != RowStages::kFinish) {
    filler.FillSlabs(p.leave.quarters, static_cast<int>(LeaveSlabs(p.width, ProjectedWidth(p))));
  }
}

// By kProductWarps warps, with the rows of kGroups groups of a tile. D is at most kPanels slabs
// wide.
template <int kGroups, int kPanels>
class RowProductBlock {
  static constexpr int kRows = kGroups * kGroupRows;

 public:
  __device__ __forceinline__ RowProductBlock(const RowProductParams& params, const StageRing& ring,
                                             const Tile& tile, int tile_index, int first_group)
      : params_(params),
        p_(params.rows),
        tile_(tile),
        tile_index_(tile_index),
        first_group_(first_group),
        rows_(params.rows, params.shared.rows),
        ring_(ring) {}

  __device__ __forceinline__ void Run() {
    const bool finishes = p_.stages != RowStages::kLeave;
    const bool leaves = p_.stages != RowStages::kFinish;
    if (finishes) rows_.FetchFinishVectors(p_.finish.vectors);
    if (leaves) rows_.FetchLeaveVectors(p_.leave.vectors);
    Load();
    if (finishes) {
      MergeChunks();
      WaitForCopies<0>();
    } else {
      FillOperand();
    }
    rows_.SyncOperands();
    auto product = static_cast<int>(finishes ? RowProduct::kAttention : RowProduct::kFeature);
    const auto last = static_cast<int>(leaves ? RowProduct::kProjection : RowProduct::kDown);
    const auto kept = static_cast<int>(leaves ? RowProduct::kFeature : RowProduct::kDown);
#pragma unroll 1
    for (; product <= last; ++product) {
      rows_.Multiply(static_cast<RowProduct>(product), ring_, next_stage_,
                     p_.x + first_row() * p_.width, product == kept ? rows_in_use() : 0);
    }
    if (leaves) {
      LeaveRows<kGroups, kProductWarps>(
          {tile_, tile_index_, first_group_ * kGroupRows, rows_in_use()}, p_,
          params_.shared.rows.head_shift, rows_.projected(0), params_.shared.rows.projected);
    }
  }

 private:
  // Of all tiles' rows.
  __device__ __forceinline__ int64_t first_row() const {
    return static_cast<int64_t>(tile_index_) * kTileRows + first_group_ * kGroupRows;
  }
  __device__ __forceinline__ int rows_in_use() const {
    return min(kRows, (tile_.groups - first_group_) * kGroupRows);
  }

  // Asks for x.
  __device__ __forceinline__ void Load() const {
    const float* x = p_.x + first_row() * p_.width;
#pragma unroll 1
    for (int row = ThreadIndex() / kWarp; row < kRows; row += kProductWarps) {
#pragma unroll 1
      for (int column = ThreadIndex() % kWarp * 4; column < p_.width; column += kWarp * 4) {
        CopyLater16(rows_.x(row) + column, x + row * p_.width + column);
      }
    }
    CommitCopies();
  }

  // operand = x.
  __device__ __forceinline__ void FillOperand() const {
    WaitForCopies<0>();
    rows_.Sync();
#pragma unroll 1
    for (int row = ThreadIndex() / kWarp; row < kRows; row += kProductWarps) {
#pragma unroll 1
      for (int column = ThreadIndex() % kWarp * 4; column < SlabsOf(p_.width) * kSlabInputs;
           column += kWarp * 4) {
        Floats4 x = {};
        if (column < p_.width) x = LoadAs<Floats4>(rows_.x(row) + column);
        rows_.StoreOperand(row, column, x);
      }
    }
  }

  // operand = attention, from the states of its chunks in their order: as many loads in flight as
  // registers allow, of rows or of chunks.
  __device__ __forceinline__ void MergeChunks() const {
    if (p_.split == ChunkSplit::kTogether) {
      MergeRows<kRows / kProductWarps, 1>(1);
    } else {
      MergeRows<1, 8>(static_cast<int>(ContextChunks(tile_.context_rows)));
    }
  }

  template <int kTogether, int kChunks>
  __device__ __forceinline__ void MergeRows(int slots) const {
    const int width = p_.heads * p_.head_dim;
#pragma unroll 1
    for (int column = ThreadIndex() % kWarp * 4; column < SlabsOf(width) * kSlabInputs;
         column += kWarp * 4) {
#pragma unroll 1
      for (int row = ThreadIndex() / kWarp; row < kRows; row += kTogether * kProductWarps) {
        Floats4 merged[kTogether] = {};
        if (column < width) {
          MergeElements<kTogether, kChunks>(p_, slots, first_row() + row, kProductWarps, column,
                                            params_.shared.rows.head_shift, merged);
        }
#pragma unroll
        for (int r = 0; r < kTogether; ++r) {
          rows_.StoreOperand(row + r * kProductWarps, column, merged[r]);
        }
      }
    }
  }

  const RowProductParams& params_;
  const RowLayerParams& p_;
  const Tile& tile_;
  const int tile_index_;
  const int first_group_;
  const ProductRows<kGroups, kPanels, kRowStageBytes> rows_;
  RingReader ring_;
  uint32_t next_stage_ = 0;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_PRODUCT_CUH_
