#include "base/integer_math.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/row_encoder/attend_to_tokens.cuh"
#include "kernels/cuda/row_encoder/cell_block.cuh"
#include "kernels/cuda/row_encoder/cell_rows.h"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;

// Keys and values of one tile in shared memory behind the weights.
constexpr int kKeysValuesBytes = kCellTileKvSize * 2;

// Rows of one block: as many as have a warp for each of their tiles, at least one.
constexpr int RowsOfBlock(int row_tiles) { return row_tiles < kWarps ? kWarps / row_tiles : 1; }

// Grid: x rows, RowsOfBlock at a time. A block owns its rows, a warp every eighth of their tiles:
// first it leaves the tile's keys and values for all, then it reads those of the tile's row.
//
// -inf: every row has at least one cell, in its first tile, so m is finite after that.
__global__ void __launch_bounds__(kThreads) MixRowsKernel(const __grid_constant__ MixRowsParams p) {
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  char* const shared = DynamicSmem();
  uint16_t* const keys = reinterpret_cast<uint16_t*>(shared + kCellBlockBytes);
  const int row_tiles = static_cast<int>(CellTiles(p.columns));
  const int first_row = blockIdx.x * RowsOfBlock(row_tiles);
  const int tiles = min(RowsOfBlock(row_tiles), p.rows - first_row) * row_tiles;
  float* const cells = p.cells + static_cast<int64_t>(first_row) * row_tiles * kCellTile;
  GridDepLaunch();
  CellBlock::Fetch<kThreads>(p.layer, shared);
  GridDepWait();
  CpAsyncWait<0>();
  __syncthreads();

  const CellBlock block(shared, p.shape);
  for (int tile = warp; tile < tiles; tile += kWarps) {
    CellTokens x;
    x.Load(cells + tile * kCellTile, p.columns - tile % row_tiles * kCellTileTokens);
    const CellOperand h = block.Normed(x);
#pragma unroll
    for (int head = 0; head < kCellHeads; ++head) {
      uint16_t* to = keys + tile * kCellTileKvSize + head * kCellHeadKvSize + lane * 8;
      StoreAs<Words4>(to, block.Keys(h, head));
      StoreAs<Words4>(to + kCellHeadKeysSize, block.Values(h, head));
    }
  }
  __syncthreads();
  for (int tile = warp; tile < tiles; tile += kWarps) {
    const int valid = p.columns - tile % row_tiles * kCellTileTokens;
    CellTokens x;
    x.Load(cells + tile * kCellTile, valid);
    AttendToTokens(block, keys + tile / row_tiles * row_tiles * kCellTileKvSize, p.columns, x);
    x.Store(cells + tile * kCellTile, valid);
  }
}

}  // namespace

ErrorCode LoadMixRowsKernel(int shared_bytes) { return LoadKernel(&MixRowsKernel, shared_bytes); }

// A row of more tiles than there are warps has a block of its own.
int MixRowsSharedBytes(int most_columns) {
  const int tiles = max(kWarps, static_cast<int>(CellTiles(most_columns)));
  return kCellBlockBytes + tiles * kKeysValuesBytes;
}

ErrorCode LaunchMixRows(const MixRowsParams& params, Stream stream) {
  const auto row_tiles = static_cast<int>(CellTiles(params.columns));
  const int rows = RowsOfBlock(row_tiles);
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(CeilDiv(params.rows, rows)),
      .threads = kThreads,
      .shared_bytes = kCellBlockBytes + rows * row_tiles * kKeysValuesBytes,
  };
  return Launch(&MixRowsKernel, shape, stream, params);
}

}  // namespace chorale::kernels::cuda
