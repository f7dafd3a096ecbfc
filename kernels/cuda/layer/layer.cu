#include <initializer_list>

#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/layer_mma_sm80.cuh"
#include "kernels/cuda/layer/layer_wgmma_sm90.h"
#include "kernels/cuda/layer/smem_mma_sm80.h"
#include "kernels/cuda/layer/weight_prefetch.cuh"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

// Warps of a block: many rows keep fewer warps busy, which then read the rows fewer times.
constexpr int RowWarps(int block_rows) { return block_rows >= 32 ? 8 : 16; }

// The slabs of the stages that are run, on their way before the kernel ahead has ended: weights are
// nobody's result.
template <int kWarps>
__device__ __forceinline__ WeightStream<kWarps> StreamOf(const RowKernelParams& params) {
  const RowLayerParams& p = params.rows;
  const auto finish = static_cast<int>(FinishSlabs(p.width, p.heads * p.head_dim, p.hidden));
  const auto leave = static_cast<int>(LeaveSlabs(p.width, ProjectedWidth(p)));
  return WeightStream<kWarps>(p.finish.slabs, p.stages == RowStages::kLeave ? 0 : finish,
                              p.leave.slabs, p.stages == RowStages::kFinish ? 0 : leave);
}

// Grid: x blocks of kGroups groups, or of half a group. A block owns its rows from the first stage
// to the last; a warp computes 8 or 16 outputs of every slab for all of the block's rows, so each
// weight is read once a block. D is at most kPanels slabs wide.
//
// -inf: attention may have seen no key (m = -inf, l = 0), which MergeMaximum and the divisor turn
// into 0.
template <int kGroups, int kPanels>
__global__ void __launch_bounds__(RowWarps(kGroups* kGroupRows) * kWarpSize, 1)
    RowLayerKernel(const __grid_constant__ RowKernelParams params) {
  const RowLayerParams& p = params.rows;
  GridDepLaunch();
  constexpr int kWarps = RowWarps(kGroups * kGroupRows);
  Rows<kGroups, kPanels, kWarps> rows(params);
  WeightStream<kWarps> weights = StreamOf<kWarps>(params);
  const bool finishes = p.stages != RowStages::kLeave;
  const bool leaves = p.stages != RowStages::kFinish;
  if (finishes) rows.FetchFinishVectors(p.finish.vectors);
  if (leaves) rows.FetchLeaveVectors(p.leave.vectors);
  GridDepWait();
  const Tile tile = LoadCg<Tile>(p.tiles + rows.tile_index());
  rows.Load();
  rows.SetTile(&tile);
  if (finishes) {
    rows.MergeChunks();
  } else {
    rows.FillOperand();
  }
  if (rows.idle()) return;
  weights.FetchSecond();
  auto product = static_cast<int>(finishes ? RowProduct::kAttention : RowProduct::kFeature);
  const auto last = static_cast<int>(leaves ? RowProduct::kProjection : RowProduct::kDown);
  const auto kept = static_cast<int>(leaves ? RowProduct::kFeature : RowProduct::kDown);
#pragma unroll 1
  for (; product <= last; ++product) {
    rows.Multiply(static_cast<RowProduct>(product), weights, product == kept);
  }
  if (leaves) rows.Leave();
}

template <int kGroups, typename Use>
ErrorCode WithPanels(int64_t panels, const Use& use) {
  if (panels == 1) return use(&RowLayerKernel<kGroups, 1>);
  return panels == 2 ? use(&RowLayerKernel<kGroups, 2>) : use(&RowLayerKernel<kGroups, 4>);
}

// Calls use(kernel) for the kernel of a block's rows and of the slabs of D.
template <typename Use>
ErrorCode WithKernel(int block_rows, int64_t panels, const Use& use) {
  if (block_rows <= kGroupRows) return WithPanels<1>(panels, use);
  return block_rows == 2 * kGroupRows ? WithPanels<2>(panels, use) : WithPanels<4>(panels, use);
}

}  // namespace

ErrorCode LoadMmaLayerKernels(int shared_bytes) {
  for (const int block_rows : {kGroupRows, 2 * kGroupRows, 4 * kGroupRows}) {
    for (const int panels : {1, 2, 4}) {
      const ErrorCode error = WithKernel(
          block_rows, panels, [&](auto kernel) { return LoadKernel(kernel, shared_bytes); });
      if (error != 0) return error;
    }
  }
  return 0;
}

ErrorCode LaunchRowLayer(const RowLayerParams& params, int block_rows, int shared_bytes,
                         Stream stream) {
  if (TakesWarpgroups(params, block_rows, shared_bytes)) {
    return LaunchRowProduct(params, block_rows, shared_bytes, stream);
  }
  const RowKernelParams kernel_params = {params, RowLayoutOf(params, block_rows), block_rows};
  const LaunchShape shape = {
      .blocks_x = params.tile_count * (kTileRows / block_rows),
      .threads = RowWarps(block_rows) * kWarpSize,
      .shared_bytes = kernel_params.shared.bytes,
  };
  return WithKernel(block_rows, Slabs(params.width),
                    [&](auto kernel) { return Launch(kernel, shape, stream, kernel_params); });
}

}  // namespace chorale::kernels::cuda
