#include <cassert>

#include "base/arena_layout.h"
#include "base/integer_math.h"
#include "kernels/cuda/ptx/access.cuh"
#include "kernels/cuda/ptx/bf16.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/grid_dependency.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/vector_types.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/row_encoder/cell_block.cuh"
#include "kernels/cuda/row_encoder/cell_pool.h"
#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/launch.h"

namespace chorale::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kRows = kCellTileTokens;  // of a block

// A block's shared memory. Strides are padded against bank conflicts.
struct SmemLayout {
  int operand_stride = 0;
  int sums_stride = 0;
  SmemArray<char> weights;      // of the cell block
  SmemArray<Words4> queries;    // [TokenReader::kQueries], of the seed tokens
  SmemArray<uint16_t> operand;  // [kRows][operand_stride] bf16: inputs of the last linear map
  SmemArray<float> sums;        // [kRows][sums_stride]: its outputs
  int32_t bytes = 0;
};

SmemLayout LayoutOf(const PoolCellsParams& p) {
  SmemArenaLayout arena(16);
  SmemLayout layout;
  layout.operand_stride = PoolInputs(p.num_seed_tokens) + 32;
  layout.sums_stride = p.width + 8;
  layout.weights = arena.Take<char>(kCellBlockBytes);
  layout.queries = arena.Take<Words4>(TokenReader::kQueries);
  layout.operand = arena.Take<uint16_t>(int64_t{kRows} * layout.operand_stride);
  layout.sums = arena.Take<float>(int64_t{kRows} * layout.sums_stride);
  layout.bytes = arena.bytes();
  return layout;
}

struct KernelParams {
  PoolCellsParams pool;
  SmemLayout shared;
};

// Index in an operand row of lane j's 8 inputs of 32: elements 32k + {2j, 2j+1, 2j+8, ...}.
__device__ __forceinline__ int PoolOperandAt(int k, int j) { return k * 32 + j * 8; }

// The seed tokens read the cells of each row; several rows share a tile of 16 tokens, and a token
// attends to its own row's cells alone.
__device__ __forceinline__ void PoolRows(const PoolCellsParams& p, const CellBlock& cell_block,
                                         Words4* queries, int first_row, uint16_t* operand,
                                         int operand_stride) {
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const int rows_per_tile = kCellTileTokens / p.num_seed_tokens;
  const int row_tiles = static_cast<int>(CellTiles(p.columns));
  CellTokens x;
  if (warp == 0) {
    x.Repeat(p.seed_tokens, p.num_seed_tokens, rows_per_tile * p.num_seed_tokens);
    TokenReader::StoreQueries(cell_block, x, queries);
  }
  __syncthreads();
  TokenReader reader(queries);
  for (int begin = warp * rows_per_tile; begin < kRows; begin += kWarps * rows_per_tile) {
    reader.Clear();
    const int rows = min(rows_per_tile, min(kRows - begin, p.rows - first_row - begin));
    for (int i = 0; i < rows; ++i) {
      const bool reads[2] = {lane / 4 / p.num_seed_tokens == i,
                             (lane / 4 + 8) / p.num_seed_tokens == i};
      const float* cells =
          p.cells + static_cast<int64_t>(first_row + begin + i) * row_tiles * kCellTile;
      for (int t = 0; t < row_tiles; ++t) {
        const int valid = p.columns - t * kCellTileTokens;
        x.Load(cells + t * kCellTile, valid);
        reader.Read(cell_block, x, valid, reads);
      }
    }
    CellOperand attended;
#pragma unroll
    for (int head = 0; head < kCellHeads; ++head) reader.state(head).Finish(attended.w[head]);
    x.Repeat(p.seed_tokens, p.num_seed_tokens, rows_per_tile * p.num_seed_tokens);
    cell_block.Finish(attended, x);
    const CellTokens z = Normalized(x, p.out_gamma, p.out_beta, p.shape);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = lane / 4 + 8 * half;
      const int row = begin + token / p.num_seed_tokens;
      if (token >= rows_per_tile * p.num_seed_tokens || row >= kRows) continue;
      uint16_t* to = operand + row * operand_stride + token % p.num_seed_tokens * kCellWidth;
#pragma unroll
      for (int k = 0; k < kCellWidth / 32; ++k) {
        Words4 words;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          words.w[n] = PackBf16(z.v[4 * k + n][2 * half], z.v[4 * k + n][2 * half + 1]);
        }
        StoreAs<Words4>(to + PoolOperandAt(k, lane % 4), words);
      }
    }
  }
}

// Appends `gated` to the rows of the operand as two bf16: the rounded value, and the rounding
// error.
__device__ __forceinline__ void SplitGated(const PoolCellsParams& p, int first_row,
                                           uint16_t* operand, int operand_stride) {
  for (int i = threadIdx.x; i < kRows * kCellWidth / 2; i += kThreads) {
    const int row = i / (kCellWidth / 2);
    const int d = i % (kCellWidth / 2) * 2;
    Floats2 pair = {};
    if (first_row + row < p.rows) {
      pair = LoadCg<Floats2>(p.gated + static_cast<int64_t>(first_row + row) * kCellWidth + d);
    }
    const uint32_t rounded = PackBf16(pair.v[0], pair.v[1]);
    const uint32_t rest = PackBf16(pair.v[0] - FirstBf16(rounded), pair.v[1] - SecondBf16(rounded));
    uint16_t* to = operand + row * operand_stride + p.num_seed_tokens * kCellWidth +
                   PoolOperandAt(d / 32, d % 8 / 2) + d % 32 / 8 * 2;
    StoreAs<uint32_t>(to, rounded);
    StoreAs<uint32_t>(to + kCellWidth, rest);
  }
}

// sums = W operand + bias.
__device__ __forceinline__ void ApplyOut(const PoolCellsParams& p, const uint16_t* operand,
                                         int operand_stride, float* sums, int sums_stride) {
  const int lane = threadIdx.x % kWarpSize;
  const int steps = PoolInputs(p.num_seed_tokens) / 32;
  const uint16_t* const upper = operand + lane / 4 * operand_stride + PoolOperandAt(0, lane % 4);
  const uint16_t* const lower = upper + 8 * operand_stride;
  for (int n = threadIdx.x / kWarpSize; n < p.width / 8; n += kWarps) {
    const Floats2 bias = LoadAs<Floats2>(p.out_bias + 8 * n + lane % 4 * 2);
    float c[4] = {bias.v[0], bias.v[1], bias.v[0], bias.v[1]};
    const auto* weights = reinterpret_cast<const Words4*>(p.out) + n * steps * kWarpSize + lane;
#pragma unroll 4
    for (int k = 0; k < steps; ++k) {
      const Words4 w = LoadNcNoAllocate(weights + k * kWarpSize);
      const Words4 u = LoadAs<Words4>(upper + k * 32);
      const Words4 l = LoadAs<Words4>(lower + k * 32);
      Mma(c, u.w[0], l.w[0], u.w[1], l.w[1], w.w[0], w.w[1]);
      Mma(c, u.w[2], l.w[2], u.w[3], l.w[3], w.w[2], w.w[3]);
    }
    float* to = sums + lane / 4 * sums_stride + 8 * n + lane % 4 * 2;
    StoreAs<Floats2>(to, {c[0], c[1]});
    StoreAs<Floats2>(to + 8 * sums_stride, {c[2], c[3]});
  }
}

__device__ __forceinline__ void NormalizeEncodings(const PoolCellsParams& p, int first_row,
                                                   const float* sums, int sums_stride) {
  const int lane = threadIdx.x % kWarpSize;
  const float count = static_cast<float>(p.width);
  const int rows = min(kRows, p.rows - first_row);
  for (int row = threadIdx.x / kWarpSize; row < rows; row += kWarps) {
    const float* x = sums + row * sums_stride;
    float sum = 0;
    for (int c = lane; c < p.width; c += kWarpSize) sum += x[c];
    const float mean = SumOverLanes<kWarpSize>(sum) / count;
    float squares = 0;
    for (int c = lane; c < p.width; c += kWarpSize)
      squares = fmaf(x[c] - mean, x[c] - mean, squares);
    const float scale = 1.0f / sqrtf(SumOverLanes<kWarpSize>(squares) / count + p.shape.epsilon);
    float* to = p.encodings + static_cast<int64_t>(first_row + row) * p.width;
    for (int c = lane; c < p.width; c += kWarpSize) {
      to[c] = fmaf((x[c] - mean) * scale, p.gamma[c], p.beta[c]);
    }
  }
}

// Grid: x groups of 16 rows. A block takes its rows from cells to encodings: a warp pools some of
// the rows, then computes every fourth tile of 8 outputs for all of them.
//
// -inf: tokens of rows beyond the last attend to nothing; they are finite and unused.
__global__ void __launch_bounds__(kThreads)
    PoolCellsKernel(const __grid_constant__ KernelParams params) {
  const PoolCellsParams& p = params.pool;
  char* const shared = DynamicSmem();
  uint16_t* const operand = params.shared.operand.At(shared);
  Words4* const queries = params.shared.queries.At(shared);
  float* const sums = params.shared.sums.At(shared);
  const int first_row = blockIdx.x * kRows;
  GridDepLaunch();
  CellBlock::Fetch<kThreads>(p.pool, params.shared.weights.At(shared));
  GridDepWait();
  CpAsyncWait<0>();
  __syncthreads();
  PoolRows(p, CellBlock(params.shared.weights.At(shared), p.shape), queries, first_row, operand,
           params.shared.operand_stride);
  SplitGated(p, first_row, operand, params.shared.operand_stride);
  __syncthreads();
  ApplyOut(p, operand, params.shared.operand_stride, sums, params.shared.sums_stride);
  __syncthreads();
  NormalizeEncodings(p, first_row, sums, params.shared.sums_stride);
}

}  // namespace

ErrorCode LoadPoolCellsKernel(int shared_bytes) {
  return LoadKernel(&PoolCellsKernel, shared_bytes);
}

int PoolCellsSharedBytes(const PoolCellsParams& params) { return LayoutOf(params).bytes; }

ErrorCode LaunchPoolCells(const PoolCellsParams& params, Stream stream) {
  assert(ValidatePoolCells(params).ok());
  const KernelParams kernel_params = {params, LayoutOf(params)};
  const LaunchShape shape = {
      .blocks_x = static_cast<int>(CeilDiv(params.rows, kRows)),
      .threads = kThreads,
      .shared_bytes = kernel_params.shared.bytes,
  };
  return Launch(&PoolCellsKernel, shape, stream, kernel_params);
}

}  // namespace chorale::kernels::cuda
