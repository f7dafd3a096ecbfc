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
};

__device__ __forceinline__ StageRing RingOf(const RowProductParams& params) {
  auto* arrivals = reinterpret_cast<Arrivals*>(Shared() + params.shared.arrivals);
  const int slots = params.shared.stages;
  return {Shared() + params.shared.ring, arrivals, arrivals + slots, slots};
}

// The weights of the stages that are run, in the order in which RowProductBlock takes them.
class WeightFiller {
 public:
  __device__ __forceinline__ WeightFiller(const RowLayerParams& p, const StageRing& ring)
      : ring_(ring) {
    const auto finish = static_cast<int>(FinishSlabs(p.width, p.heads * p.head_dim, p.hidden));
    const auto leave = static_cast<int>(LeaveSlabs(p.width, ProjectedWidth(p)));
    finish_ = p.stages == RowStages::kLeave ? 0 : finish * kSlabStages;
    leave_ = p.stages == RowStages::kFinish ? 0 : leave * kSlabStages;
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
  static constexpr int kSlabStages = kRingReaders;

  RingFiller ring_;
  int finish_;  // stages
  int leave_;
  int filled_ = 0;
  const char* next_;
  const char* more_;
};

// By one thread. The ring is full of weights before the kernel ahead has ended: they are nobody's
// result.
__device__ __forceinline__ void FillRing(const RowProductParams& params, const StageRing& ring,
                                         const Tile* tile, int first_group) {
  WeightFiller filler(params.rows, ring);
  filler.Fill(ring.slots);
  WaitForPrevious();
  if (LoadFresh<int32_t>(&tile->groups) > first_group) {
    filler.Fill(filler.left());
  } else {
    // A block does not end while something is on its way to it.
    for (int i = 0; i < filler.filled(); ++i) WaitForPhase(ring.full + i, 0);
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
        rows_(params.rows, params.shared.rows),
        ring_(ring, Warpgroup()) {}

  __device__ __forceinline__ void Run() {
    const bool finishes = p_.stages != RowStages::kLeave;
    const bool leaves = p_.stages != RowStages::kFinish;
    if (finishes) rows_.FetchFinishVectors(p_.finish.vectors);
    if (leaves) rows_.FetchLeaveVectors(p_.leave.vectors);
    // No kernel changes it, so it need not be waited for behind the kernel ahead.
    const int context_rows = LoadFresh<int32_t>(&p_.tiles[tile_index_].context_rows);
    WaitForPrevious();
    tile_ = LoadFresh<Tile>(p_.tiles + tile_index_);
    Load();
    if (finishes) {
      MergeChunks(static_cast<int>(ContextChunks(context_rows)));
      WaitForCopies<0>();
    } else {
      FillOperand();
    }
    if (rows_in_use() <= 0) return;
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

  // Asks for x. Rows that are not in use are read all the same, so that nothing waits for the tile;
  // nothing that is kept depends on them.
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
  __device__ __forceinline__ void MergeChunks(int chunks) const {
    if (p_.split == ChunkSplit::kTogether) {
      MergeRows<kRows / kProductWarps, 1>(1);
    } else {
      MergeRows<2, 8>(chunks);
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
  const int tile_index_;
  const int first_group_;
  Tile tile_;
  const ProductRows<kGroups, kPanels> rows_;
  RingReader ring_;
};

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_PRODUCT_CUH_
