#include <cassert>

#include "base/arena_layout.h"
#include "kernels/cuda/attention/split_state.cuh"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/row_encoder/cell_block.cuh"
#include "kernels/cuda/row_encoder/cell_features.cuh"
#include "kernels/cuda/row_encoder/cell_summary.h"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

// Two blocks fit on a multiprocessor: their registers and their copies of the weights.
constexpr int kWarps = 6;
constexpr int kThreads = kWarps * kWarpSize;

using Embedding = CellEmbedding<true>;

// A block's shared memory.
struct SmemLayout {
  SmemArray<char> weights;    // of the cell block
  SmemArray<float> states;    // [kWarps][kSummarySize]; overlays `weights`, no longer needed then
  SmemArray<float> cell;      // weights of the embedding
  SmemArray<float> features;  // [kWarps][kFeatureTile]
  SmemArray<Words4> queries;  // [TokenReader::kQueries]
  int32_t bytes = 0;
};
static_assert(kWarps * kSummarySize * sizeof(float) <= kCellBlockBytes);

constexpr SmemLayout SmemLayoutOf() {
  SmemArenaLayout arena(16);
  SmemLayout layout;
  layout.weights = arena.Take<char>(kCellBlockBytes);
  layout.states = {layout.weights.offset};
  layout.cell = arena.Take<float>(Embedding::kWeights);
  layout.features = arena.Take<float>(kWarps * kFeatureTile);
  layout.queries = arena.Take<Words4>(TokenReader::kQueries);
  layout.bytes = arena.bytes();
  return layout;
}

// Combines element `at` of o, with its m and l, over all warps in their order.
__device__ __forceinline__ void CombineElement(const float* states, int at, float* summary) {
  const int state = at % kCellWidth / kCellHeadWidth * kCellTileTokens + at / kCellWidth;
  float m = -INFINITY;
  float l = 0;
  float o = 0;
  for (int w = 0; w < kWarps; ++w) {
    const float* warp = states + w * kSummarySize;
    const CombineScale scale = CombineMax(m, warp[kSummaryM + state]);
    l = CombineSum(l, warp[kSummaryL + state], scale);
    o = CombineSum(o, warp[at], scale);
  }
  summary[at] = o;
  if (at % kCellHeadWidth != 0) return;
  summary[kSummaryM + state] = m;
  summary[kSummaryL + state] = l;
}

__device__ __forceinline__ void StoreState(int head, CellHeadState& state, float score_scale,
                                           float* summary) {
  const int lane = threadIdx.x % kWarpSize;
  state.Sum();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = lane / 4 + 8 * half;
    float* o = summary + token * kCellWidth + head * kCellHeadWidth + lane % 4 * 2;
    StoreAs<Floats2>(o, {state.o[0][2 * half], state.o[0][2 * half + 1]});
    StoreAs<Floats2>(o + 8, {state.o[1][2 * half], state.o[1][2 * half + 1]});
    if (lane % 4 != 0) continue;
    summary[kSummaryM + head * kCellTileTokens + token] = state.m[half] * score_scale;
    summary[kSummaryL + head * kCellTileTokens + token] = state.l[half];
  }
}

// Grid: x chunks of rows, y columns. A block reads one chunk of one column; a warp takes every
// sixth tile of 16 rows. The warps' states are combined in the order of the warps.
//
// -inf: a warp without rows has m = -inf and l = 0, and CombineMax scales it by 0.
__global__ void __launch_bounds__(kThreads, 2)
    SummariseColumnsKernel(const __grid_constant__ SummariseColumnsParams p) {
  const int warp = threadIdx.x / kWarpSize;
  const int column = blockIdx.y;
  char* const shared = DynamicSmem();
  constexpr SmemLayout kSmem = SmemLayoutOf();
  float* const cell = kSmem.cell.At(shared);
  float* const features = kSmem.features.At(shared) + warp * kFeatureTile;
  GridDepLaunch();
  CellBlock::Fetch<kThreads>(p.summarise, kSmem.weights.At(shared));
  for (int i = threadIdx.x; i < Embedding::kWeights; i += kThreads) cell[i] = p.cell[i];
  GridDepWait();
  CpAsyncWait<0>();
  __syncthreads();

  const CellBlock cell_block(kSmem.weights.At(shared), p.shape);
  const bool reads[2] = {true, true};
  Words4* const queries = kSmem.queries.At(shared);
  CellTokens x;
  if (warp == 0) {
    x.Repeat(p.inducing_points, p.num_inducing_points, p.num_inducing_points);
    TokenReader::StoreQueries(cell_block, x, queries);
  }
  __syncthreads();
  TokenReader reader(queries);
  reader.Clear();
  const int begin = blockIdx.x * kSummaryRows;
  const int end = min(begin + kSummaryRows, p.table.rows);
  for (int first = begin + warp * kCellTileTokens; first < end; first += kWarps * kCellTileTokens) {
    x = Embedding::Embed(p.table, first, column, cell, features);
    reader.Read(cell_block, x, end - first, reads);
  }

  __syncthreads();  // `states` overlays the weights
  float* const states = kSmem.states.At(shared);
#pragma unroll
  for (int head = 0; head < kCellHeads; ++head) {
    StoreState(head, reader.state(head), p.shape.score_scale, states + warp * kSummarySize);
  }
  __syncthreads();
  float* const summary =
      p.summaries + (static_cast<int64_t>(blockIdx.x) * p.table.columns + column) * kSummarySize;
  for (int at = threadIdx.x; at < kSummaryM; at += kThreads) {
    CombineElement(states, at, summary);
  }
}

}  // namespace

ErrorCode LoadSummariseColumnsKernel(int shared_bytes) {
  return LoadKernel(&SummariseColumnsKernel, shared_bytes);
}

int SummariseColumnsSharedBytes() { return SmemLayoutOf().bytes; }

ErrorCode LaunchSummariseColumns(const SummariseColumnsParams& params, Stream stream) {
  assert(ValidateSummariseColumns(params).ok());
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(SummaryChunks(params.table.rows)),
      .blocks_y = params.table.columns,
      .threads = kThreads,
      .shared_bytes = SummariseColumnsSharedBytes(),
  };
  return Launch(&SummariseColumnsKernel, shape, stream, params);
}

}  // namespace chorale::kernels::cuda
