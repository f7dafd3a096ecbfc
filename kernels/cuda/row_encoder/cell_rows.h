// The cells of a row attend to each other: a row layer of "cell_attention"
// (engine/backend/row_encoder/cell_attention.cc), in place.
//
// A row's result does not depend on which other rows are computed with it.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_ROWS_H_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/row_encoder/cell_layout.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

struct MixRowsParams {
  float* cells = nullptr;           // [rows, CellTiles(columns), kCellTile] f32, device, updated
  const uint16_t* layer = nullptr;  // a cell block (cell_layout.h), device
  int32_t rows = 0;
  int32_t columns = 0;
  CellShape shape;
};

// InvalidArgument naming the field.
absl::Status ValidateMixRows(const MixRowsParams& params);

// Bytes of shared memory a block, for rows of up to that many columns.
int MixRowsSharedBytes(int most_columns);

// REQUIRES: ValidateMixRows(params).ok().
ErrorCode LaunchMixRows(const MixRowsParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_ROWS_H_
