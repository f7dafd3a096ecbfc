// How a block of the row kernel that takes products of warpgroups divides its shared memory.
#ifndef CHORALE_KERNELS_CUDA_LAYER_SMEM_WGMMA_SM90_H_
#define CHORALE_KERNELS_CUDA_LAYER_SMEM_WGMMA_SM90_H_

#include <algorithm>

#include "base/integer_math.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/smem_mma_sm80.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale::kernels::cuda {

// Warps that take products of warpgroups: few, for each to have all registers it wants.
inline constexpr int kProductWarps = 8;
inline constexpr int kRingReaders = kProductWarps / kWarpgroupWarps;

// A stage of the ring (stage_ring.cuh): half of the outputs of a slab. One slab is let go when the
// next is asked for.
inline constexpr int kRowStageBytes = kSlabSize * static_cast<int>(sizeof(uint16_t)) / kRingReaders;
inline constexpr int kFewestRowStages = 2 * kRingReaders;
inline constexpr int kMostRowStages = 6 * kRingReaders;

// Offsets in bytes.
struct RowProductLayout {
  int operand_inputs = 0;  // padded to whole slabs, as the next two
  int hidden = 0;
  int projected = 0;
  int x_stride = 0;
  int head_shift = 0;  // log2 of Dh
  int operand = 0;     // [rows, operand_inputs] bf16 as ProductOperandAt has it: attention, then x
  // [rows, hidden] likewise, or [rows, projected] bf16 as OperandAt has it: q, K and V.
  int wide = 0;
  int x = 0;         // [rows][x_stride] f32
  int finish = 0;    // FinishWeights::vectors
  int leave = 0;     // LeaveWeights::vectors
  int given = 0;     // Mbarrier: x and vectors have come
  int arrivals = 0;  // [2][stages] Mbarrier: full, empty
  int ring = 0;      // [stages] kRowStageBytes
  int stages = 0;    // as many as there is room for, 0 if that is too few
  int bytes = 0;
};

constexpr RowProductLayout RowProductLayoutOf(const RowLayerParams& p, int block_rows,
                                              int shared_bytes) {
  const auto padded = [](int n) { return static_cast<int>(Slabs(n)) * kSlabInputs; };
  int next = 0;
  const auto take = [&next](int bytes) {
    const int at = next;
    next = static_cast<int>(RoundUp(next + bytes, 128));
    return at;
  };
  RowProductLayout layout;
  layout.operand_inputs = padded(std::max(p.heads * p.head_dim, p.width));
  layout.hidden = padded(p.hidden);
  layout.projected = padded(ProjectedWidth(p));
  layout.x_stride = p.width + 4;  // columns 2g of rows 2j hit each bank once
  while (1 << layout.head_shift < p.head_dim) ++layout.head_shift;
  layout.operand = take(2 * ProductOperandSize(block_rows, layout.operand_inputs));
  layout.wide = take(
      2 * std::max(ProductOperandSize(block_rows, layout.hidden), block_rows * layout.projected));
  layout.x = take(4 * block_rows * layout.x_stride);
  layout.finish = take(4 * FinishVectorsSize(p));
  layout.leave = take(4 * LeaveVectorsSize(p));
  layout.given = take(8);
  layout.arrivals = take(2 * kMostRowStages * 8);
  layout.ring = next;
  layout.stages = std::min(kMostRowStages,
                           (shared_bytes - next) / (kRingReaders * kRowStageBytes) * kRingReaders);
  if (layout.stages < kFewestRowStages) layout.stages = 0;
  layout.bytes = layout.ring + layout.stages * kRowStageBytes;
  return layout;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_LAYER_SMEM_WGMMA_SM90_H_
