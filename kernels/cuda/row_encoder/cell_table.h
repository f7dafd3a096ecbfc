// The rows that the row encoder's kernels read.
#ifndef CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_TABLE_H_
#define CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_TABLE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/row_encoder/cell_layout.h"

namespace chorale::kernels::cuda {

// Pointers are device memory.
struct CellTable {
  const float* values = nullptr;         // [rows, columns] f32, finite
  const uint8_t* missing = nullptr;      // [rows, columns], not zero where missing; or null
  const uint8_t* categorical = nullptr;  // [columns], not zero for a categorical column
  const float* y = nullptr;              // [rows] f32; or null when no row has a target
  int32_t rows = 0;
  int32_t columns = 0;
};

// InvalidArgument naming the field.
absl::Status ValidateCellTable(const CellTable& table);
absl::Status ValidateCellShape(const CellShape& shape);
absl::Status ValidateColumns(int32_t columns);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_ROW_ENCODER_CELL_TABLE_H_
