#include "base/integer_math.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/row_encoder/attend_to_tokens.cuh"
#include "kernels/cuda/row_encoder/cell_block.cuh"
#include "kernels/cuda/row_encoder/cell_columns.h"
#include "kernels/cuda/row_encoder/cell_features.cuh"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

// Two blocks of a multiprocessor have room for their registers and their copies of the weights.
constexpr int kWarps = 6;
constexpr int kThreads = kWarps * kWarpSize;

using Embedding = CellEmbedding<false>;

// The block's shared memory, in bytes. The warps' shares of `gated` take the place of the weights
// when nobody needs those any more.
constexpr int kWeightsAt = 0;
constexpr int kCellAt = kWeightsAt + kCellBlockBytes;
constexpr int kFeaturesAt = kCellAt + Embedding::kWeights * 4;
constexpr int kSharedBytes = kFeaturesAt + kWarps * kFeatureTile * 4;
static_assert(kWarps * kCellTile * 4 <= kCellBlockBytes);

__device__ __forceinline__ void AddGated(const CellTokens& cells, const float* gate,
                                         CellTokens& gated) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (int n = 0; n < kCellColumns; ++n) {
    const Floats2 g = LoadAs<Floats2>(gate + 8 * n + lane % 4 * 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) gated.v[n][i] = fmaf(cells.v[n][i], g.v[i % 2], gated.v[n][i]);
  }
}

// The tokens of the tile are rows of one column; in `cells` a tile holds columns of one row.
__device__ __forceinline__ void Leave(const ReadColumnsParams& p, int first, int column,
                                      const CellTokens& x) {
  const int lane = threadIdx.x % kWarpSize;
  const int tiles = static_cast<int>(CellTiles(p.table.columns));
  const float* id = p.column_ids + column * kCellWidth + lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane / 4 + 8 * half;
    if (row >= p.table.rows) continue;
    float* tile =
        p.cells + (static_cast<int64_t>(row) * tiles + column / kCellTileTokens) * kCellTile;
#pragma unroll
    for (int n = 0; n < kCellColumns; ++n) {
      const Floats2 add = LoadAs<Floats2>(id + 8 * n);
      StoreAs<Floats2>(tile + CellAt(column % kCellTileTokens, 8 * n + lane % 4 * 2),
                       {x.v[n][2 * half] + add.v[0], x.v[n][2 * half + 1] + add.v[1]});
    }
  }
}

// Grid: x 16 rows at a time. A block owns all cells of its rows: a warp takes every sixth column,
// 16 cells of one column at a time, so that all of them read the same points.
//
// -inf: every column has at least one point, so m is finite after it.
__global__ void __launch_bounds__(kThreads, 2)
    ReadColumnsKernel(const __grid_constant__ ReadColumnsParams p) {
  const int warp = threadIdx.x / kWarpSize;
  char* const shared = DynamicSmem();
  float* const cell = reinterpret_cast<float*>(shared + kCellAt);
  float* const features = reinterpret_cast<float*>(shared + kFeaturesAt) + warp * kFeatureTile;
  GridDepLaunch();
  CellBlock::Fetch<kThreads>(p.read_column, shared + kWeightsAt);
  for (int i = threadIdx.x; i < Embedding::kWeights; i += kThreads) cell[i] = p.cell[i];
  GridDepWait();
  CpAsyncWait<0>();
  __syncthreads();

  const CellBlock block(shared + kWeightsAt, p.shape);
  const int first = blockIdx.x * kCellTileTokens;
  CellTokens gated = {};
  for (int column = warp; column < p.table.columns; column += kWarps) {
    CellTokens x = Embedding::Embed(p.table, first, column, cell, features);
    AddGated(x, p.gates + column * kCellWidth, gated);
    AttendToTokens(block, p.inducing_kv + static_cast<int64_t>(column) * kCellTileKvSize,
                   p.num_inducing_points, x);
    Leave(p, first, column, x);
  }

  __syncthreads();  // nobody needs the weights any more
  float* const shares = reinterpret_cast<float*>(shared + kWeightsAt);  // [warp] of a tile
  gated.Store(shares + warp * kCellTile, kCellTileTokens);
  __syncthreads();
  for (int i = threadIdx.x; i < kCellTile; i += kThreads) {
    const int row = first + i / kCellWidth;
    if (row >= p.table.rows) break;
    const int at = CellAt(i / kCellWidth, i % kCellWidth);
    float sum = shares[at];
    for (int w = 1; w < kWarps; ++w) sum += shares[w * kCellTile + at];
    p.gated[static_cast<int64_t>(row) * kCellWidth + i % kCellWidth] = sum;
  }
}

}  // namespace

ErrorCode LoadReadColumnsKernel(int shared_bytes) {
  return LoadKernel(&ReadColumnsKernel, shared_bytes);
}

int ReadColumnsSharedBytes() { return kSharedBytes; }

ErrorCode LaunchReadColumns(const ReadColumnsParams& params, Stream stream) {
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(CeilDiv(params.table.rows, kCellTileTokens)),
      .threads = kThreads,
      .shared_bytes = kSharedBytes,
  };
  return Launch(&ReadColumnsKernel, shape, stream, params);
}

}  // namespace chorale::kernels::cuda
