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
#include "kernels/cuda/row_encoder/cell_rows.h"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;

// A block's shared memory: the weights of the cell block, then K and V of the block's cell tiles.
struct SmemLayout {
  SmemArray<char> weights;
  SmemArray<uint16_t> kv;  // [tiles][kCellTileKvSize] bf16
  int32_t bytes = 0;
};

constexpr SmemLayout SmemLayoutOf(int tiles) {
  SmemArenaLayout arena(16);
  SmemLayout layout;
  layout.weights = arena.Take<char>(kCellBlockBytes);
  layout.kv = arena.Take<uint16_t>(int64_t{tiles} * kCellTileKvSize);
  layout.bytes = arena.bytes();
  return layout;
}

// Rows of one block: as many as leave a warp for each of their tiles, at least one.
constexpr int RowsOfBlock(int row_tiles) { return row_tiles < kWarps ? kWarps / row_tiles : 1; }

// Grid: x groups of RowsOfBlock rows. A warp takes every eighth tile of the block's rows: it first
// stores the tile's K and V to shared memory, then attends to all K and V of the tile's row.
//
// -inf: every row has at least one cell, in its first tile, so m is finite after that tile.
__global__ void __launch_bounds__(kThreads) MixRowsKernel(const __grid_constant__ MixRowsParams p) {
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  char* const shared = DynamicSmem();
  constexpr SmemLayout kSmem = SmemLayoutOf(0);  // offsets do not depend on the tiles
  uint16_t* const kv = kSmem.kv.At(shared);
  const int row_tiles = static_cast<int>(CellTiles(p.columns));
  const int first_row = blockIdx.x * RowsOfBlock(row_tiles);
  const int tiles = min(RowsOfBlock(row_tiles), p.rows - first_row) * row_tiles;
  float* const cells = p.cells + static_cast<int64_t>(first_row) * row_tiles * kCellTile;
  GridDepLaunch();
  CellBlock::Fetch<kThreads>(p.layer, kSmem.weights.At(shared));
  GridDepWait();
  CpAsyncWait<0>();
  __syncthreads();

  const CellBlock cell_block(kSmem.weights.At(shared), p.shape);
  for (int tile = warp; tile < tiles; tile += kWarps) {
    CellTokens x;
    x.Load(cells + tile * kCellTile, p.columns - tile % row_tiles * kCellTileTokens);
    const CellOperand h = cell_block.Normed(x);
#pragma unroll
    for (int head = 0; head < kCellHeads; ++head) {
      uint16_t* to = kv + tile * kCellTileKvSize + head * kCellHeadKvSize + lane * 8;
      StoreAs<Words4>(to, cell_block.Keys(h, head));
      StoreAs<Words4>(to + kCellHeadKeysSize, cell_block.Values(h, head));
    }
  }
  __syncthreads();
  for (int tile = warp; tile < tiles; tile += kWarps) {
    const int valid = p.columns - tile % row_tiles * kCellTileTokens;
    CellTokens x;
    x.Load(cells + tile * kCellTile, valid);
    AttendToTokens(cell_block, kv + tile / row_tiles * row_tiles * kCellTileKvSize, p.columns, x);
    x.Store(cells + tile * kCellTile, valid);
  }
}

}  // namespace

ErrorCode LoadMixRowsKernel(int shared_bytes) { return LoadKernel(&MixRowsKernel, shared_bytes); }

// A row with more tiles than a block has warps gets a block of its own.
int MixRowsSharedBytes(int most_columns) {
  const int tiles = max(kWarps, static_cast<int>(CellTiles(most_columns)));
  return SmemLayoutOf(tiles).bytes;
}

ErrorCode LaunchMixRows(const MixRowsParams& params, Stream stream) {
  assert(ValidateMixRows(params).ok());
  const auto row_tiles = static_cast<int>(CellTiles(params.columns));
  const int rows = RowsOfBlock(row_tiles);
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(CeilDiv(params.rows, rows)),
      .threads = kThreads,
      .shared_bytes = SmemLayoutOf(rows * row_tiles).bytes,
  };
  return Launch(&MixRowsKernel, shape, stream, params);
}

}  // namespace chorale::kernels::cuda
