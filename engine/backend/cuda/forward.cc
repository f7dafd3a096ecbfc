#include "engine/backend/cuda/forward.h"

#include "kernels/cuda/embed/embed.h"

namespace chorale::cuda {

kernels::cuda::EmbedPathsParams Forward::PathsOf(const TileSet& set) const {
  return {.tiles = set.tiles,
          .paths = set.paths,
          .offsets = model_.offsets(),
          .y_weight = model_.y_weight(),
          .x = set.x,
          .tile_count = set.count,
          .width = model_.shape().width,
          .buffer_positions = static_cast<int32_t>(model_.config().buffer_size)};
}

void Forward::EmbedRows(const TileSet& set, const float* encodings, int64_t rows,
                        const float* offset, const float* y) const {
  scratch_.device.Launch(kernels::cuda::LaunchEmbedRows,
                         {.encodings = encodings,
                          .offset = offset,
                          .y = y,
                          .y_weight = model_.y_weight(),
                          .x = set.x,
                          .rows = static_cast<int32_t>(rows),
                          .width = model_.shape().width},
                         "embedding rows");
}

}  // namespace chorale::cuda
