#include <cassert>

#include "kernels/cuda/layer/kernel_variants.h"
#include "kernels/cuda/layer/layer.h"
#include "kernels/cuda/layer/layer_gemm.h"
#include "kernels/cuda/layer/layer_mma_sm80.cuh"
#include "kernels/cuda/layer/layer_tile_sm90.h"
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

// Warps of a block: with many rows, half as many warps are busy enough, and read the rows half as
// often.
constexpr int BlockWarps(int block_rows) { return block_rows >= 32 ? 8 : 16; }

template <int kWarps>
__device__ __forceinline__ WeightPrefetch<kWarps> PrefetchOf(const LayerParams& p) {
  const auto post_attention = static_cast<int>(PostAttentionTiles(p.shape));
  const auto pre_attention = static_cast<int>(PreAttentionTiles(p.shape));
  return WeightPrefetch<kWarps>(
      p.post_attention.weight_tiles, p.part == LayerPart::kPreAttention ? 0 : post_attention,
      p.pre_attention.weight_tiles, p.part == LayerPart::kPostAttention ? 0 : pre_attention);
}

// Grid: x blocks of kGroups groups, or of half a group. A block computes its rows from the first
// GEMM to the last; a warp computes 8 or 16 outputs of every weight tile for all of the block's
// rows, so a block reads each weight once. D is at most kWidthTiles weight tiles wide. Weights,
// which no kernel writes, are loaded before GridDepWait.
//
// -inf: a row without keys has m = -inf and l = 0; CombineMax and the divisor make its attention 0.
template <int kGroups, int kWidthTiles>
__global__ void __launch_bounds__(BlockWarps(kGroups* kGroupRows) * kWarpSize, 1)
    MmaLayerKernel(const __grid_constant__ MmaLayerParams params) {
  const LayerParams& p = params.layer;
  GridDepLaunch();
  constexpr int kWarps = BlockWarps(kGroups * kGroupRows);
  MmaRows<kGroups, kWidthTiles, kWarps> rows(params);
  WeightPrefetch<kWarps> weights = PrefetchOf<kWarps>(p);
  const bool has_post = p.part != LayerPart::kPreAttention;
  const bool has_pre = p.part != LayerPart::kPostAttention;
  if (has_post) rows.FetchPostAttentionVectors(p.post_attention.vectors);
  if (has_pre) rows.FetchPreAttentionVectors(p.pre_attention.vectors);
  GridDepWait();
  const Tile tile = LoadCg<Tile>(p.tiles + rows.tile_index());
  rows.FetchX();
  rows.SetTile(&tile);
  if (has_post) {
    rows.CombineSplits();
  } else {
    rows.FillA();
  }
  if (rows.idle()) return;
  weights.FetchSecond();
  const LayerGemm last = LastGemm(has_pre);
  const LayerGemm last_into_x = LastGemmIntoX(has_pre);
  // Output projection, LN2, MLP up, GELU, MLP down, LN3; feature attention, LN1, QKV projection.
#pragma unroll 1
  for (LayerGemm gemm = FirstGemm(has_post); gemm <= last; gemm = NextGemm(gemm)) {
    rows.Multiply(gemm, weights, /*store_x=*/gemm == last_into_x);
  }
  if (has_pre) rows.StoreQkv();
}

struct MmaKernels {
  template <int kGroups, int kWidthTiles>
  static constexpr auto kKernel = &MmaLayerKernel<kGroups, kWidthTiles>;
};

}  // namespace

ErrorCode LoadMmaLayerKernels(int shared_bytes) { return LoadVariants<MmaKernels>(shared_bytes); }

ErrorCode LaunchLayer(const LayerParams& params, int block_rows, int shared_bytes, Stream stream) {
  assert(ValidateLayer(params).ok());
  if (UsesTileKernel(params, block_rows, shared_bytes)) {
    return LaunchTileLayer(params, shared_bytes, stream);
  }
  if (UsesWgmma(params, block_rows, shared_bytes)) {
    return LaunchWgmmaLayer(params, block_rows, shared_bytes, stream);
  }
  const MmaLayerParams kernel_params = {params, MmaSmemOf(params.shape, block_rows), block_rows};
  const LaunchShape shape = {
      .blocks_x = params.tile_count * (kTileRows / block_rows),
      .threads = BlockWarps(block_rows) * kWarpSize,
      .shared_bytes = kernel_params.shared.bytes,
  };
  return WithVariant<MmaKernels>(block_rows, WeightTiles(params.shape.width), [&](auto kernel) {
    return Launch(kernel, shape, stream, kernel_params);
  });
}

}  // namespace chorale::kernels::cuda
