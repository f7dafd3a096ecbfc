#include <cassert>

#include "base/integer_math.h"
#include "kernels/cuda/head/emit_rows.cuh"
#include "kernels/cuda/head/head_layout.h"
#include "kernels/cuda/head/head_rows.cuh"
#include "kernels/cuda/head/unfused_head.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/gelu.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

struct UnfusedHeadKernelParams {
  HeadKernelParams kernel;
  const float* h;
};

constexpr int kChunkSteps = kUnfusedHeadChunk / kHeadInputs;

// A warp's work in pass `pass`, where passes over the second map count on from chunk to chunk.
__device__ __forceinline__ HeadWarpTask ChunkTaskOf(const HeadMap& map, int pass) {
  const int chunk = pass / map.passes;
  const int steps = min(kChunkSteps, map.k_steps - chunk * kChunkSteps);  // 0 or less: no more
  return WarpTaskOf(map, pass - chunk * map.passes, chunk * kChunkSteps, steps);
}

// hidden = gelu(h + b1) of a block's rows and one chunk, padded with zeros, as MultiplyTask reads
// it.
__device__ __forceinline__ void LoadHidden(const UnfusedHeadKernelParams& params, const float* h,
                                           int first, char* shared) {
  const HeadParams& p = params.kernel.head;
  const int inputs = min(kUnfusedHeadChunk, p.shape.hidden - first);
  const int quads = HeadPadded(inputs) / 4;
#pragma unroll 4
  for (int i = ThreadIndex(); i < kHeadRows * quads; i += kHeadThreads) {
    const int row = i / quads;
    const int at = i % quads * 4;
    Floats4 g = {};
    if (at < inputs) {
      g = LoadCg<Floats4>(h + static_cast<int64_t>(row) * p.shape.hidden + first + at);
      const Floats4 b = LoadAs<Floats4>(p.weights.b1 + first + at);
#pragma unroll
      for (int k = 0; k < 4; ++k) g.v[k] = Gelu(g.v[k] + b.v[k]) * p.weights.scales.hidden;
    }
    params.kernel.shared.hidden.At(shared)[HeadQuadAt(row, at, 1)] = SplitActivations(g);
  }
}

// Grid: as HeadKernel, x row sets of 8. The hidden layer, which may not fit into shared memory,
// goes through it in chunks.
//
// -inf: as HeadKernel.
__global__ void __launch_bounds__(kHeadThreads, 2)
    UnfusedHeadKernel(const __grid_constant__ UnfusedHeadKernelParams params) {
  GridDepLaunch();
  const HeadKernelParams& kernel = params.kernel;
  const HeadParams& p = kernel.head;
  const HeadMap& map = kernel.maps[1];
  char* const shared = DynamicSmem();
  HeadWeightFragment<1> fragment;
  LoadWeightFragment<1>(ChunkTaskOf(map, 0).weight, fragment);
  __syncwarp();  // keeps the compiler from sinking these loads below the next ones
  LoadMixtureVectors<1>(kernel, shared);
  GridDepWait();
  const HeadRows rows = HeadRowsOfBlock<1>(p);
  if (rows.in_use <= 0) return;
  if (p.paths != nullptr && WarpIndex() == kHeadWarps - 1) {
    CopyPaths(kernel, rows.tile_index, shared);
  }
  CpAsyncCommit();
  CpAsyncWait<0>();
  // Sets of 8 rows lie one after the other, in both cases.
  const float* const h = params.h + static_cast<int64_t>(blockIdx.x) * kHeadRows *
                                        static_cast<int64_t>(p.shape.hidden);
  const int passes = static_cast<int>(CeilDiv(p.shape.hidden, kUnfusedHeadChunk)) * map.passes;
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
    const int pass_of_chunk = pass % map.passes;
    if (pass_of_chunk == 0) {
      LoadHidden(params, h, pass / map.passes * kUnfusedHeadChunk, shared);
      __syncthreads();
    }
    MultiplyTask<1>(ChunkTaskOf(map, pass), ChunkTaskOf(map, pass + 1).weight,
                    kernel.shared.hidden.At(shared), fragment, kernel.shared.partials.At(shared));
    __syncthreads();
    ReducePartials<1>(kernel, /*first_map=*/false, pass_of_chunk, shared);
    __syncthreads();
  }
  EmitRows<1>(kernel, rows, shared);
}

}  // namespace

ErrorCode LoadUnfusedHeadKernel(int shared_bytes) {
  return LoadKernel(&UnfusedHeadKernel, shared_bytes);
}

ErrorCode LaunchUnfusedHead(const UnfusedHeadParams& params, Stream stream) {
  assert(ValidateUnfusedHead(params).ok());
  const HeadParams& head = params.head;
  const UnfusedHeadKernelParams kernel_params = {
      HeadKernelParamsOf(head, UnfusedHeadLayoutOf(head.shape.components)), params.h};
  const int sets = head.paths != nullptr ? kTileGroups : kTileRows / kHeadRows;
  const LaunchShape shape = {.blocks_x = head.tile_count * sets,
                             .threads = kHeadThreads,
                             .shared_bytes = kernel_params.kernel.shared.bytes};
  return Launch(&UnfusedHeadKernel, shape, stream, kernel_params);
}

}  // namespace chorale::kernels::cuda
