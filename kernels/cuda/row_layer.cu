#include <initializer_list>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/row_layer.h"
#include "kernels/cuda/row_layout.h"
#include "kernels/cuda/row_stages.cuh"
#include "kernels/cuda/weight_stream.cuh"

namespace chorale::kernels::cuda {
namespace {

// The slabs of the stages that are run, on their way before the kernel ahead has ended: weights are
// nobody's result.
__device__ __forceinline__ WeightStream StreamOf(const RowKernelParams& params) {
  const RowLayerParams& p = params.rows;
  const int queries = p.heads * p.head_dim;
  const int projected = queries + 2 * p.kv_heads * p.head_dim;
  const auto finish = static_cast<int>(FinishSlabs(p.width, queries, p.hidden));
  const auto leave = static_cast<int>(LeaveSlabs(p.width, projected));
  return WeightStream(Shared() + params.shared.ring, params.block.stages, p.finish.slabs,
                      p.stages == RowStages::kLeave ? 0 : finish, p.leave.slabs,
                      p.stages == RowStages::kFinish ? 0 : leave);
}

// Grid: x blocks of kGroups groups, or of half a group. A block owns its rows from the first stage
// to the last; a warp computes 16 outputs of every slab for all of the block's rows, so each weight
// is read once a block. kPanels slabs of outputs make up D.
//
// -inf: attention may have seen no key (m = -inf, l = 0), which MergeMaximum and the divisor turn
// into 0.
template <int kGroups, int kPanels>
__global__ void __launch_bounds__(kRowThreads, 1)
    RowLayerKernel(const __grid_constant__ RowKernelParams params) {
  const RowLayerParams& p = params.rows;
  LetNextBegin();
  Rows<kGroups, kPanels> rows(params);
  rows.FetchVectors();
  WeightStream weights = StreamOf(params);
  WaitForPrevious();
  rows.Load();
  if (p.stages != RowStages::kLeave) rows.MergeChunks();
  if (rows.idle()) {
    WaitForCopies<0>();
    return;
  }
  if (p.stages != RowStages::kLeave) {
    rows.AddProduct(p.heads * p.head_dim, weights);
    rows.Normalize(kGamma2, kBeta2);
    rows.AddFeedForward(weights);
    rows.Normalize(kGamma3, kBeta3);
  } else {
    __syncthreads();
    rows.FillOperand();
  }
  if (p.stages == RowStages::kFinish) {
    rows.Store();
    return;
  }
  rows.AddProduct(p.width, weights);
  rows.Normalize(kGamma1, kBeta1);
  rows.Store();
  rows.Project(weights);
}

// Calls use(kernel) for the kernel of a number of groups and of slabs of D.
template <typename Use>
ErrorCode WithKernel(int groups, int64_t panels, const Use& use) {
  if (panels == 1) {
    if (groups == 1) return use(&RowLayerKernel<1, 1>);
    return groups == 2 ? use(&RowLayerKernel<2, 1>) : use(&RowLayerKernel<4, 1>);
  }
  if (panels == 2) {
    if (groups == 1) return use(&RowLayerKernel<1, 2>);
    return groups == 2 ? use(&RowLayerKernel<2, 2>) : use(&RowLayerKernel<4, 2>);
  }
  return groups == 1 ? use(&RowLayerKernel<1, 4>) : use(&RowLayerKernel<2, 4>);
}

}  // namespace

ErrorCode PrepareRowLayer(int shared_bytes) {
  for (const int groups : {1, 2, 4}) {
    for (const int panels : {1, 2, 4}) {
      const ErrorCode error = WithKernel(
          groups, panels, [&](auto kernel) { return PrepareKernel(kernel, shared_bytes); });
      if (error != 0) return error;
    }
  }
  return 0;
}

ErrorCode LaunchRowLayer(const RowLayerParams& params, const RowBlock& block, Stream stream) {
  const RowKernelParams kernel_params = {params, RowLayoutOf(params, block), block};
  const LaunchShape shape = {
      .blocks_x = params.tile_count * (kTileRows / block.rows),
      .threads = kRowThreads,
      .shared_bytes = kernel_params.shared.bytes,
  };
  return WithKernel(RowGroups(block), Slabs(params.width),
                    [&](auto kernel) { return Launch(kernel, shape, stream, kernel_params); });
}

}  // namespace chorale::kernels::cuda
