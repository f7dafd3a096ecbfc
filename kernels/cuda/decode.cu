#include <initializer_list>

#include "kernels/cuda/decode.h"
#include "kernels/cuda/decode_block.cuh"
#include "kernels/cuda/decode_layout.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/prepare.h"

namespace chorale::kernels::cuda {
namespace {

// Four warps more than compute: a warp more would take as many registers from the others. One of
// their threads fills the ring, and those who compute get what they can give up.
constexpr int kThreads = (kDecodeWarps + 4) * kWarp;
[[maybe_unused]] constexpr int kFillerRegisters = 24;
[[maybe_unused]] constexpr int kComputeRegisters = 240;

// Grid: x blocks of kGroups groups of each tile. Nothing that a block reads is written by another
// block of the launch. What it writes itself and reads again, values and its paths' keys, it reads
// from the level-two cache, behind a barrier. The next kernel does not begin early: there is no
// room for its blocks.
//
// -inf: as in AttentionKernel and HeadKernel.
template <int kHeadDim, int kGroups, int kPanels>
__global__ void __launch_bounds__(kThreads, 1)
    DecodeKernel(const __grid_constant__ DecodeKernelParams params) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kBlocksOfTile = kTileGroups / kGroups;
  const int tile_index = blockIdx.x / kBlocksOfTile;
  const int first_group = blockIdx.x % kBlocksOfTile * kGroups;
  auto* const tile = reinterpret_cast<Tile*>(Shared() + params.shared.tile);
  auto* const order = reinterpret_cast<ContextOrder*>(Shared() + params.shared.order);
  auto* const paths = reinterpret_cast<PathTile*>(Shared() + params.shared.paths);
  WaitForPrevious();
  const Tile uploaded = LoadFresh<Tile>(params.rows.tiles + tile_index);
  if (uploaded.groups <= first_group) return;
  const PathTile uploaded_paths = LoadFresh<PathTile>(params.head.head.paths + tile_index);
  const int steps = min(uploaded_paths.steps_left, uploaded_paths.targets - uploaded_paths.place);
  if (threadIdx.x == 0) {
    *tile = uploaded;
    *paths = uploaded_paths;
    *order = ContextOrderOf(uploaded.context_rows);
    RingOf(params, StageBytes(kHeadDim)).Init();
  }
  __syncthreads();
  if (threadIdx.x >= kDecodeWarps * kWarp) {
    KeepRegisters<kFillerRegisters>();
    if (threadIdx.x == kDecodeWarps * kWarp) FillRing<kHeadDim>(params, uploaded, steps);
    return;
  }
  TakeRegisters<kComputeRegisters>();
  DecodeBlock<kHeadDim, kGroups, kPanels> block(params, tile, paths, order, first_group);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) block.Step();
  WaitForCopies<0>();
#endif
}

template <int kHeadDim, typename Use>
ErrorCode WithRows(int block_rows, int64_t panels, const Use& use) {
  if (block_rows == 4 * kGroupRows) return use(&DecodeKernel<kHeadDim, 4, 1>);
  if (block_rows == 2 * kGroupRows) {
    return panels == 1 ? use(&DecodeKernel<kHeadDim, 2, 1>) : use(&DecodeKernel<kHeadDim, 2, 2>);
  }
  if (panels == 1) return use(&DecodeKernel<kHeadDim, 1, 1>);
  return panels == 2 ? use(&DecodeKernel<kHeadDim, 1, 2>) : use(&DecodeKernel<kHeadDim, 1, 4>);
}

// Calls use(kernel) for the kernel of such heads, of a block's rows and of the slabs of D.
template <typename Use>
ErrorCode WithKernel(int head_dim, int block_rows, int64_t panels, const Use& use) {
  return head_dim == 32 ? WithRows<32>(block_rows, panels, use)
                        : WithRows<64>(block_rows, panels, use);
}

}  // namespace

ErrorCode PrepareDecode(int shared_bytes) {
  for (const int head_dim : {32, 64}) {
    for (const int block_rows : {kGroupRows, 2 * kGroupRows, 4 * kGroupRows}) {
      for (const int panels : {1, 2, 4}) {
        if (panels > MostDecodePanels(block_rows)) continue;
        const ErrorCode error = WithKernel(head_dim, block_rows, panels, [&](auto kernel) {
          return PrepareKernel(kernel, shared_bytes);
        });
        if (error != 0) return error;
      }
    }
  }
  return 0;
}

ErrorCode LaunchDecode(const DecodeParams& params, int block_rows, int shared_bytes,
                       Stream stream) {
  const RowLayerParams rows = DecodeRowShapes(params);
  const HeadParams head = DecodeHeadShapes(params);
  const DecodeLayout shared = DecodeLayoutOf(rows, head, block_rows, shared_bytes);
  DecodeKernelParams kernel_params = {
      .layers = params.layers,
      .offsets = params.offsets,
      .y_weight = params.y_weight,
      .rows = rows,
      .head = HeadKernelParamsOf(head),
      .shared = shared,
      .teams = AttentionTeamsOf(params.heads, block_rows / kGroupRows),
      .ring_inverse = RingInverse(static_cast<uint32_t>(shared.stages)),
      .heads_of_kv = params.heads / params.kv_heads,
      .kv_inverse = 65536 / (params.heads / params.kv_heads) + 1,
      .layer_count = params.layer_count,
      .places = params.places,
  };
  kernel_params.head.shared = shared.head;
  const LaunchShape shape = {
      .blocks_x = params.tile_count * (kTileRows / block_rows),
      .threads = kThreads,
      .shared_bytes = shared.bytes,
  };
  return WithKernel(params.head_dim, block_rows, Slabs(params.width),
                    [&](auto kernel) { return Launch(kernel, shape, stream, kernel_params); });
}

}  // namespace chorale::kernels::cuda
