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

// The weight tiles of the stages that are run, on their way before the kernel ahead has ended:
// weights are nobody's result.
template <int kWarps>
__device__ __forceinline__ WeightPrefetch<kWarps> StreamOf(const MmaLayerParams& params) {
  const LayerParams& p = params.rows;
  const auto post_attention =
      static_cast<int>(PostAttentionTiles(p.width, p.heads * p.head_dim, p.hidden));
  const auto pre_attention = static_cast<int>(PreAttentionTiles(p.width, QkvWidth(p)));
  return WeightPrefetch<kWarps>(
      p.post_attention.weight_tiles, p.part == LayerPart::kPreAttention ? 0 : post_attention,
      p.pre_attention.weight_tiles, p.part == LayerPart::kPostAttention ? 0 : pre_attention);
}

// Grid: x blocks of kGroups groups, or of half a group. A block owns its rows from the first stage
// to the last; a warp computes 8 or 16 outputs of every weight tile for all of the block's rows, so
// each weight is read once a block. D is at most kWidthTiles weight tiles wide.
//
// -inf: attention may have seen no key (m = -inf, l = 0), which CombineMax and the divisor turn
// into 0.
template <int kGroups, int kWidthTiles>
__global__ void __launch_bounds__(RowWarps(kGroups* kGroupRows) * kWarpSize, 1)
    MmaLayerKernel(const __grid_constant__ MmaLayerParams params) {
  const LayerParams& p = params.rows;
  GridDepLaunch();
  constexpr int kWarps = RowWarps(kGroups * kGroupRows);
  Rows<kGroups, kWidthTiles, kWarps> rows(params);
  WeightPrefetch<kWarps> weights = StreamOf<kWarps>(params);
  const bool finishes = p.part != LayerPart::kPreAttention;
  const bool leaves = p.part != LayerPart::kPostAttention;
  if (finishes) rows.FetchPostAttentionVectors(p.post_attention.vectors);
  if (leaves) rows.FetchPreAttentionVectors(p.pre_attention.vectors);
  GridDepWait();
  const Tile tile = LoadCg<Tile>(p.tiles + rows.tile_index());
  rows.Load();
  rows.SetTile(&tile);
  if (finishes) {
    rows.CombineSplits();
  } else {
    rows.FillA();
  }
  if (rows.idle()) return;
  weights.FetchSecond();
  auto product =
      static_cast<int>(finishes ? LayerGemm::kOutputProjection : LayerGemm::kFeatureAttention);
  const auto last = static_cast<int>(leaves ? LayerGemm::kQkvProjection : LayerGemm::kMlpDown);
  const auto kept = static_cast<int>(leaves ? LayerGemm::kFeatureAttention : LayerGemm::kMlpDown);
#pragma unroll 1
  for (; product <= last; ++product) {
    rows.Multiply(static_cast<LayerGemm>(product), weights, product == kept);
  }
  if (leaves) rows.Leave();
}

template <int kGroups, typename Use>
ErrorCode WithWidthTiles(int64_t panels, const Use& use) {
  if (panels == 1) return use(&MmaLayerKernel<kGroups, 1>);
  return panels == 2 ? use(&MmaLayerKernel<kGroups, 2>) : use(&MmaLayerKernel<kGroups, 4>);
}

// Calls use(kernel) for the kernel of a block's rows and of the weight tiles of D.
template <typename Use>
ErrorCode WithKernel(int block_rows, int64_t panels, const Use& use) {
  if (block_rows <= kGroupRows) return WithWidthTiles<1>(panels, use);
  return block_rows == 2 * kGroupRows ? WithWidthTiles<2>(panels, use)
                                      : WithWidthTiles<4>(panels, use);
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

ErrorCode LaunchLayer(const LayerParams& params, int block_rows, int shared_bytes, Stream stream) {
  if (UsesWgmma(params, block_rows, shared_bytes)) {
    return LaunchWgmmaLayer(params, block_rows, shared_bytes, stream);
  }
  const MmaLayerParams kernel_params = {params, MmaSmemOf(params, block_rows), block_rows};
  const LaunchShape shape = {
      .blocks_x = params.tile_count * (kTileRows / block_rows),
      .threads = RowWarps(block_rows) * kWarpSize,
      .shared_bytes = kernel_params.shared.bytes,
  };
  return WithKernel(block_rows, WeightTiles(params.width),
                    [&](auto kernel) { return Launch(kernel, shape, stream, kernel_params); });
}

}  // namespace chorale::kernels::cuda
