// How a block of the row kernel that takes products of warpgroups divides its shared memory.
#ifndef CHORALE_KERNELS_CUDA_ROW_PRODUCT_LAYOUT_H_
#define CHORALE_KERNELS_CUDA_ROW_PRODUCT_LAYOUT_H_

#include <algorithm>

#include "kernels/cuda/layout.h"
#include "kernels/cuda/row_layer.h"
#include "kernels/cuda/row_layout.h"

namespace chorale::kernels::cuda {

inline constexpr int kRingReaders = kProductWarps / kWarpgroupWarps;

// A stage of the ring (stage_ring.cuh): half of the outputs of a slab. One slab is let go when the
// next is asked for.
inline constexpr int kRowStageBytes = kSlabSize * static_cast<int>(sizeof(uint16_t)) / kRingReaders;
inline constexpr int kFewestRowStages = 2 * kRingReaders;
inline constexpr int kMostRowStages = 6 * kRingReaders;

// Offsets in bytes.
struct RowProductLayout {
  ProductLayout rows;
  int given = 0;     // Arrivals: x and vectors have come
  int arrivals = 0;  // [2][stages] Arrivals: full, empty
  int ring = 0;      // [stages] kRowStageBytes
  int stages = 0;    // as many as there is room for, 0 if that is too few
  int bytes = 0;
};

constexpr RowProductLayout RowProductLayoutOf(const RowLayerParams& p, int block_rows,
                                              int shared_bytes) {
  int next = 0;
  const auto take = [&next](int bytes) {
    const int at = next;
    next = static_cast<int>(RoundUp(next + bytes, 128));
    return at;
  };
  RowProductLayout layout;
  ProductLayout& rows = layout.rows;
  rows = ProductLayoutOf(p);
  rows.operand = take(2 * ProductOperandSize(block_rows, rows.operand_inputs));
  rows.wide =
      take(2 * std::max(ProductOperandSize(block_rows, rows.hidden), block_rows * rows.projected));
  rows.x = take(4 * block_rows * rows.x_stride);
  rows.finish = take(4 * FinishVectorsSize(p));
  rows.leave = take(4 * LeaveVectorsSize(p));
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

#endif  // CHORALE_KERNELS_CUDA_ROW_PRODUCT_LAYOUT_H_
