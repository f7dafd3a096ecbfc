// Pools the cells of each row into its encoding: the last part of encoding rows with
// "cell_attention" (engine/backend/row_encoder/cell_attention.cc).
//
//   z        = pool(seed_tokens; cell)                       P seed tokens attend to the cells
//   encoding = LN(Wo flatten(LN(z)) + bo + Wd gated)
//
// `gated` enters the product as two bfloat16 numbers each, with 16 bits of mantissa: it tells
// similar rows apart.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_POOL_H_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_POOL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/row_encoder/cell_layout.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// Inputs of the last linear map: the seed tokens, then gated in two parts.
constexpr int PoolInputs(int tokens) { return (tokens + 2) * kCellWidth; }

// Pointers are device memory. E is kCellWidth, padded with zeros.
struct PoolCellsParams {
  const float* cells = nullptr;        // [rows, CellTiles(columns), kCellTile] f32
  const float* gated = nullptr;        // [rows, E] f32
  const float* seed_tokens = nullptr;  // [P, E] f32
  const uint16_t* pool = nullptr;      // a cell block (cell_layout.h)
  const float* out_gamma = nullptr;    // [E] f32, of the inner norm
  const float* out_beta = nullptr;     // [E]
  const uint16_t* out = nullptr;       // [D, PoolInputs(P)] bf16, see CellWeightAt: Wo, Wd, Wd
  const float* out_bias = nullptr;     // [D]
  const float* gamma = nullptr;        // [D], of the outer norm
  const float* beta = nullptr;         // [D]
  float* encodings = nullptr;          // [rows, D] f32
  int32_t rows = 0;
  int32_t columns = 0;
  int32_t num_seed_tokens = 0;  // P, 1 to kCellTileTokens
  int32_t width = 0;            // D, a multiple of 8, at most kLargestEncoding
  CellShape shape;
};

inline constexpr int kLargestEncoding = 512;

// InvalidArgument naming the field.
absl::Status ValidatePoolCells(const PoolCellsParams& params);

// Bytes of shared memory a block. Depends on num_seed_tokens and width alone.
int PoolCellsSharedBytes(const PoolCellsParams& params);

// REQUIRES: ValidatePoolCells(params).ok().
ErrorCode LaunchPoolCells(const PoolCellsParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_POOL_H_
