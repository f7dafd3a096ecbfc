// Token embedding: a row's encoding, plus an offset for its role and position, plus its value.
//   out_r = encodings[row_r] + offsets[offset_r] + y_r * y_weight
#ifndef CHORALE_KERNELS_OPS_EMBED_ROWS_H_
#define CHORALE_KERNELS_OPS_EMBED_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

struct EmbedRowsParams {
  const float* encodings = nullptr;   // [E, width], row encodings, computed once per row
  const float* offsets = nullptr;     // [O, width], for each role and buffer position
  const float* y_weight = nullptr;    // [width]
  const float* y = nullptr;           // [rows], or null if rows have no value
  const int32_t* encoding = nullptr;  // [rows], index into encodings
  const int32_t* offset = nullptr;    // [rows], index into offsets
  float* out = nullptr;               // [rows, width], contiguous
  int64_t rows = 0;
  int64_t width = 0;
};

absl::Status ValidateEmbedRows(const EmbedRowsParams& params);

// REQUIRES: ValidateEmbedRows(params).ok().
void EmbedRows(const EmbedRowsParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_EMBED_ROWS_H_
