// Token embedding (kernels/ops/embed_rows.h) into the rows of tiles:
//   x = encodings[row] + offsets[role, position] + y y_weight
#ifndef CHORALE_KERNELS_CUDA_EMBED_EMBED_H_
#define CHORALE_KERNELS_CUDA_EMBED_EMBED_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/layout/path_tile.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// Embeds the query row and the buffer token of every path. Rows without a token are zero.
struct EmbedPathsParams {
  const Tile* tiles = nullptr;      // [tiles], device
  const PathTile* paths = nullptr;  // [tiles], device
  const float* offsets = nullptr;   // [2 + K, D] f32, device: query row, context, buffer positions
  const float* y_weight = nullptr;  // [D] f32, device
  float* x = nullptr;               // [tiles, 64, D] f32, device
  int32_t tile_count = 0;
  int32_t width = 0;             // D, a multiple of 4
  int32_t buffer_positions = 0;  // K: a token at position i gets offset 2 + i mod K
};

// Embeds rows of a context, with y, or query rows to predict, without y. They fill tiles row by
// row; the rest of the last tile is zero.
struct EmbedRowsParams {
  const float* encodings = nullptr;  // [rows, D] f32, device; may be x
  const float* offset = nullptr;     // [D] f32, device
  const float* y = nullptr;          // [rows] f32, device; or null
  const float* y_weight = nullptr;   // [D] f32, device
  float* x = nullptr;                // [tiles, 64, D] f32, device
  int32_t rows = 0;
  int32_t width = 0;  // D, a multiple of 4
};

// InvalidArgument naming the field.
absl::Status ValidateEmbedPaths(const EmbedPathsParams& params);
absl::Status ValidateEmbedRows(const EmbedRowsParams& params);

// REQUIRES: ValidateEmbedPaths(params).ok(), ValidateEmbedRows(params).ok().
ErrorCode LaunchEmbedPaths(const EmbedPathsParams& params, Stream stream);
ErrorCode LaunchEmbedRows(const EmbedRowsParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_EMBED_EMBED_H_
