// Cells attend to the inducing points of their columns: the first part of encoding rows with
// "cell_attention" (engine/backend/row_encoder/cell_attention.cc).
//
//   cell_f  = Wc cell_features(x_f) + bc
//   gated   = sum_f gate_f * cell_f                          elementwise
//   cell_f  = read_column(cell_f; points_f) + column_id_f    input of cell_rows.h
//
// The residual stream is float32. A cell's result depends on its row alone.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_COLUMNS_H_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_COLUMNS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/row_encoder/cell_layout.h"
#include "kernels/cuda/row_encoder/cell_table.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// Pointers are device memory. E is kCellWidth, padded with zeros.
struct ReadColumnsParams {
  CellTable table;
  const float* cell = nullptr;            // [kCellFeatures + 1, E] f32: Wc transposed, then bc
  const float* column_ids = nullptr;      // [columns, E] f32
  const float* gates = nullptr;           // [columns, E] f32
  const uint16_t* inducing_kv = nullptr;  // [columns, kCellTileKvSize] bf16: their K and V
  const uint16_t* read_column = nullptr;  // a cell block (cell_layout.h)
  float* cells = nullptr;                 // [rows, CellTiles(columns), kCellTile] f32
  float* gated = nullptr;                 // [rows, E] f32
  int32_t num_inducing_points = 0;        // 1 to kCellTileTokens
  CellShape shape;
};

// InvalidArgument naming the field.
absl::Status ValidateReadColumns(const ReadColumnsParams& params);

// Bytes of shared memory a block.
int ReadColumnsSharedBytes();

// REQUIRES: ValidateReadColumns(params).ok().
ErrorCode LaunchReadColumns(const ReadColumnsParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_COLUMNS_H_
