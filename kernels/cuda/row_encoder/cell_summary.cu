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

// Two blocks of a multiprocessor have room for their registers and their copies of the weights.
constexpr int kWarps = 6;
constexpr int kThreads = kWarps * kWarpSize;

using Embedding = CellEmbedding<true>;

// The block's shared memory, in bytes. The warps' states take the place of the weights when nobody
// needs those any more.
constexpr int kWeightsAt = 0;
constexpr int kCellAt = kWeightsAt + kCellBlockBytes;
constexpr int kFeaturesAt = kCellAt + Embedding::kWeights * 4;
constexpr int kQueriesAt = kFeaturesAt + kWarps * kFeatureTile * 4;
constexpr int kSharedBytes = kQueriesAt + TokenReader::kQueries * 16;
static_assert(kWarps * kSummarySize * 4 <= kCellBlockBytes);

// One element of o over the states of all warps, merged in their order, and the m and l that it
// goes with.
__device__ __forceinline__ void MergeElement(const float* states, int at, float* summary) {
  const int state = at % kCellWidth / kCellHeadWidth * kCellTileTokens + at / kCellWidth;
  float m = -INFINITY;
  float l = 0;
  float o = 0;
  for (int w = 0; w < kWarps; ++w) {
    const float* warp = states + w * kSummarySize;
    const MergeScale scale = MergeMaximum(m, warp[kSummaryM + state]);
    l = MergeSum(l, warp[kSummaryL + state], scale);
    o = MergeSum(o, warp[at], scale);
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

// Grid: x chunks of rows, y columns. A block owns one chunk of one column, a warp every sixth 16
// rows of it. The states of the warps are merged in their order.
//
// -inf: a warp without rows has m = -inf and l = 0, which MergeMaximum makes count for nothing.
__global__ void __launch_bounds__(kThreads, 2)
    SummariseColumnsKernel(const __grid_constant__ SummariseColumnsParams p) {
  const int warp = threadIdx.x / kWarpSize;
  const int column = blockIdx.y;
  char* const shared = DynamicSmem();
  float* const cell = reinterpret_cast<float*>(shared + kCellAt);
  float* const features = reinterpret_cast<float*>(shared + kFeaturesAt) + warp * kFeatureTile;
  GridDepLaunch();
  CellBlock::Fetch<kThreads>(p.summarise, shared + kWeightsAt);
  for (int i = threadIdx.x; i < Embedding::kWeights; i += kThreads) cell[i] = p.cell[i];
  GridDepWait();
  CpAsyncWait<0>();
  __syncthreads();

  const CellBlock block(shared + kWeightsAt, p.shape);
  const bool reads[2] = {true, true};
  auto* const queries = reinterpret_cast<Words4*>(shared + kQueriesAt);
  CellTokens x;
  if (warp == 0) {
    x.Repeat(p.inducing_points, p.num_inducing_points, p.num_inducing_points);
    TokenReader::StoreQueries(block, x, queries);
  }
  __syncthreads();
  TokenReader reader(queries);
  reader.Clear();
  const int begin = blockIdx.x * kSummaryRows;
  const int end = min(begin + kSummaryRows, p.table.rows);
  for (int first = begin + warp * kCellTileTokens; first < end; first += kWarps * kCellTileTokens) {
    x = Embedding::Embed(p.table, first, column, cell, features);
    reader.Read(block, x, end - first, reads);
  }

  __syncthreads();  // nobody needs the weights any more
  float* const states = reinterpret_cast<float*>(shared + kWeightsAt);  // [warp]
#pragma unroll
  for (int head = 0; head < kCellHeads; ++head) {
    StoreState(head, reader.state(head), p.shape.score_scale, states + warp * kSummarySize);
  }
  __syncthreads();
  float* const summary =
      p.summaries + (static_cast<int64_t>(blockIdx.x) * p.table.columns + column) * kSummarySize;
  for (int at = threadIdx.x; at < kSummaryM; at += kThreads) {
    MergeElement(states, at, summary);
  }
}

}  // namespace

ErrorCode LoadSummariseColumnsKernel(int shared_bytes) {
  return LoadKernel(&SummariseColumnsKernel, shared_bytes);
}

int SummariseColumnsSharedBytes() { return kSharedBytes; }

ErrorCode LaunchSummariseColumns(const SummariseColumnsParams& params, Stream stream) {
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(SummaryChunks(params.table.rows)),
      .blocks_y = params.table.columns,
      .threads = kThreads,
      .shared_bytes = kSharedBytes,
  };
  return Launch(&SummariseColumnsKernel, shape, stream, params);
}

}  // namespace chorale::kernels::cuda
