#include <cassert>

#include "kernels/cuda/head/head_layout.h"
#include "kernels/cuda/head/head_rows.cuh"
#include "kernels/cuda/head/unfused_head.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/ptx/access.cuh"
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

// A warp's work on one chunk of the hidden layer: its output tile, and its k-split of the chunk.
__device__ __forceinline__ HeadWarpTask ChunkTaskOf(const HeadMap& map, int chunk) {
  constexpr int kChunkSteps = kUnfusedHeadChunk / kHeadInputs;
  const int warp = WarpIndex();
  const int tile = warp & (map.tiles_per_pass - 1);
  const int split = warp >> map.tile_bits;
  const int first_step = chunk * kChunkSteps;
  const int steps = min(kChunkSteps, map.k_steps - first_step);  // not positive beyond the last
  const int first = (split * steps) >> map.k_split_bits;
  const int end = ((split + 1) * steps) >> map.k_split_bits;
  HeadWarpTask task = {map.weight + LaneIndex() * 4, first, 0};
  if (tile < map.output_tiles && steps > 0 && first < end) {
    task.weight += (tile * map.k_steps + first_step + first) * kHeadInputs * kHeadOutputs;
    task.k_steps = end - first;
  }
  return task;
}

// hidden = gelu(h + b1) of a block's rows and one chunk, as MultiplyTask reads it.
__device__ __forceinline__ void LoadHidden(const UnfusedHeadKernelParams& params, const float* h,
                                           int first, char* shared) {
  const HeadParams& p = params.kernel.head;
  float* const hidden = params.kernel.shared.hidden.At(shared);
  const int quads = min(kUnfusedHeadChunk, p.shape.hidden - first) / 4;
#pragma unroll 4
  for (int i = ThreadIndex(); i < kHeadRows * quads; i += kHeadThreads) {
    const int row = i / quads;
    const int at = i % quads * 4;
    const Floats4 v = LoadCg<Floats4>(h + static_cast<int64_t>(row) * p.shape.hidden + first + at);
    const Floats4 b = LoadAs<Floats4>(p.weights.b1 + first + at);
    Floats4 g;
#pragma unroll
    for (int k = 0; k < 4; ++k) g.v[k] = Gelu(v.v[k] + b.v[k]);
    StoreAs<Floats4>(hidden + HeadInputAt(row, at), g);
  }
}

// raw = b2, or raw so far, plus the partial sums of one chunk.
__device__ __forceinline__ void AddPartials(const HeadKernelParams& params, int chunk,
                                            char* shared) {
  const HeadMap& map = params.maps[1];
  const int row = ThreadIndex() / kHeadOutputs;
  const float* partials = params.shared.partials.At(shared) + ThreadIndex();
#pragma unroll 1
  for (int c = 0; c < map.output_tiles; ++c) {
    const int output = c * kHeadOutputs + ThreadIndex() % kHeadOutputs;
    if (output >= map.outputs) continue;
    float& raw = params.shared.raw.At(shared)[row * map.outputs + output];
    float sum = chunk == 0 ? params.shared.b2.At(shared)[output] : raw;
#pragma unroll 4
    for (int k = 0; k < map.k_splits; ++k) {
      sum += partials[((k << map.tile_bits) + c) * kHeadPartialSize];
    }
    raw = sum;
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
  HeadWeightFragment fragment;
  LoadWeightFragment(ChunkTaskOf(map, 0).weight, fragment);
  __syncwarp();  // keeps the compiler from sinking these loads below the next ones
  LoadMixtureVectors(kernel, shared);
  GridDepWait();
  const bool of_paths = p.paths != nullptr;
  const int sets = of_paths ? kTileGroups : kTileRows / kHeadRows;
  const int tile_index = blockIdx.x / sets;
  const int set = blockIdx.x % sets;
  const int groups = LoadCg<int32_t>(&p.tiles[tile_index].groups);
  if (set * (of_paths ? kGroupRows : kHeadRows) >= groups * kGroupRows) return;
  if (WarpIndex() == kHeadRows && of_paths) {
    constexpr int kWords = sizeof(PathTile) / 4;
    const auto* from = reinterpret_cast<const uint32_t*>(p.paths + tile_index);
    auto* to = reinterpret_cast<uint32_t*>(kernel.shared.paths.At(shared));
    if (LaneIndex() < kWords) to[LaneIndex()] = LoadCg<uint32_t>(from + LaneIndex());
    __syncwarp();
    if (LaneIndex() < kHeadRows) ComputeDraws(kernel, set, shared);
  }
  // Sets of 8 rows lie one after the other, in both cases.
  const float* const h = params.h + static_cast<int64_t>(blockIdx.x) * kHeadRows *
                                        static_cast<int64_t>(p.shape.hidden);
#pragma unroll 1
  for (int chunk = 0; chunk * kUnfusedHeadChunk < p.shape.hidden; ++chunk) {
    LoadHidden(params, h, chunk * kUnfusedHeadChunk, shared);
    __syncthreads();  // also: all have read the partials of the chunk before
    MultiplyTask(ChunkTaskOf(map, chunk), ChunkTaskOf(map, chunk + 1).weight,
                 kernel.shared.hidden.At(shared), fragment, kernel.shared.partials.At(shared));
    __syncthreads();
    AddPartials(kernel, chunk, shared);
  }
  __syncthreads();
  EmitRows(kernel, tile_index, set, shared);
}

}  // namespace

ErrorCode LoadUnfusedHeadKernel(int shared_bytes) {
  return LoadKernel(&UnfusedHeadKernel, shared_bytes);
}

ErrorCode LaunchUnfusedHead(const UnfusedHeadParams& params, Stream stream) {
  assert(ValidateUnfusedHead(params).ok());
  const HeadParams& head = params.head;
  const HeadWeights& w = head.weights;
  const UnfusedHeadKernelParams kernel_params = {
      {head,
       UnfusedHeadLayoutOf(head.shape.components),
       {HeadMap{}, HeadMapOf(w.w2, w.b2, 3 * head.shape.components, head.shape.hidden)}},
      params.h};
  const int sets = head.paths != nullptr ? kTileGroups : kTileRows / kHeadRows;
  const LaunchShape shape = {.blocks_x = head.tile_count * sets,
                             .threads = kHeadThreads,
                             .shared_bytes = kernel_params.kernel.shared.bytes};
  return Launch(&UnfusedHeadKernel, shape, stream, kernel_params);
}

}  // namespace chorale::kernels::cuda
