#include <cassert>

#include "base/arena_layout.h"
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

// Two blocks fit on a multiprocessor: their registers and their copies of the weights.
constexpr int kWarps = 6;
constexpr int kThreads = kWarps * kWarpSize;

using Embedding = CellEmbedding<false>;

// A block's shared memory.
struct SmemLayout {
  SmemArray<char> weights;    // of the cell block
  SmemArray<float> gated;     // [kWarps] cell tiles; overlays `weights`, which are no longer needed
  SmemArray<float> cell;      // weights of the embedding
  SmemArray<float> features;  // [kWarps][kFeatureTile]
  int32_t bytes = 0;
};
static_assert(kWarps * kCellTile * sizeof(float) <= kCellBlockBytes);

constexpr SmemLayout SmemLayoutOf() {
  SmemArenaLayout arena(16);
  SmemLayout layout;
  layout.weights = arena.Take<char>(kCellBlockBytes);
  layout.gated = {layout.weights.offset};
  layout.cell = arena.Take<float>(Embedding::kWeights);
  layout.features = arena.Take<float>(kWarps * kFeatureTile);
  layout.bytes = arena.bytes();
  return layout;
}

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

// Adds the column's id and stores the cells. x holds 16 rows of one column, a tile of `cells` 16
// columns of one row.
__device__ __forceinline__ void StoreCells(const ReadColumnsParams& p, int first, int column,
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

// Grid: x groups of 16 rows. A block computes all cells of its rows; a warp takes every sixth
// column, so that its 16 cells attend to the same inducing points.
//
// -inf: every column has at least one inducing point, so m is finite after it.
__global__ void __launch_bounds__(kThreads, 2)
    ReadColumnsKernel(const __grid_constant__ ReadColumnsParams p) {
  const int warp = threadIdx.x / kWarpSize;
  char* const shared = DynamicSmem();
  constexpr SmemLayout kSmem = SmemLayoutOf();
  float* const cell = kSmem.cell.At(shared);
  float* const features = kSmem.features.At(shared) + warp * kFeatureTile;
  GridDepLaunch();
  CellBlock::Fetch<kThreads>(p.read_column, kSmem.weights.At(shared));
  for (int i = threadIdx.x; i < Embedding::kWeights; i += kThreads) cell[i] = p.cell[i];
  GridDepWait();
  CpAsyncWait<0>();
  __syncthreads();

  const CellBlock cell_block(kSmem.weights.At(shared), p.shape);
  const int first = blockIdx.x * kCellTileTokens;
  CellTokens gated = {};
  for (int column = warp; column < p.table.columns; column += kWarps) {
    CellTokens x = Embedding::Embed(p.table, first, column, cell, features);
    AddGated(x, p.gates + column * kCellWidth, gated);
    AttendToTokens(cell_block, p.inducing_kv + static_cast<int64_t>(column) * kCellTileKvSize,
                   p.num_inducing_points, x);
    StoreCells(p, first, column, x);
  }

  __syncthreads();  // `gated` overlays the weights
  float* const partials = kSmem.gated.At(shared);
  gated.Store(partials + warp * kCellTile, kCellTileTokens);
  __syncthreads();
  for (int i = threadIdx.x; i < kCellTile; i += kThreads) {
    const int row = first + i / kCellWidth;
    if (row >= p.table.rows) break;
    const int at = CellAt(i / kCellWidth, i % kCellWidth);
    float sum = partials[at];
    for (int w = 1; w < kWarps; ++w) sum += partials[w * kCellTile + at];
    p.gated[static_cast<int64_t>(row) * kCellWidth + i % kCellWidth] = sum;
  }
}

}  // namespace

ErrorCode LoadReadColumnsKernel(int shared_bytes) {
  return LoadKernel(&ReadColumnsKernel, shared_bytes);
}

int ReadColumnsSharedBytes() { return SmemLayoutOf().bytes; }

ErrorCode LaunchReadColumns(const ReadColumnsParams& params, Stream stream) {
  assert(ValidateReadColumns(params).ok());
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(CeilDiv(params.table.rows, kCellTileTokens)),
      .threads = kThreads,
      .shared_bytes = ReadColumnsSharedBytes(),
  };
  return Launch(&ReadColumnsKernel, shape, stream, params);
}

}  // namespace chorale::kernels::cuda
