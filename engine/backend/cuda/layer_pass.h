// Functions for work that processes many rows together: encoding a context, a density in one pass,
// and marginal predictions.
//
// All rows of a piece of work complete a layer before the first row enters the next, in chunks of
// tiles (engine/backend/layer_schedule.h). Phase 0 computes the embedding and PreAttention(0).
// Phase l computes attention and MLP of layer l - 1, and PreAttention(l). Phase L computes
// attention and MLP of the last layer, and the head. A step is one chunk.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_LAYER_PASS_H_
#define CHORALE_ENGINE_BACKEND_CUDA_LAYER_PASS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/context_layout.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/layer_schedule.h"

namespace chorale::cuda {

// Returns the row tiles of a step: one per multiprocessor, at least 64, and at most
// LayerForm::most_tiles.
int64_t ChunkTiles(const DeviceModel& model, const Device& device);
// The same for rows of a context that is being encoded: as many as their attention is fastest with.
int64_t EncodeChunkTiles(const DeviceModel& model, const Device& device);

// Returns the tiles of rows that do not belong to paths, and do not attend to each other.
std::vector<kernels::cuda::Tile> TilesOfRows(int64_t rows, const ContextKeys& context);
// Returns the tiles that encode these rows of `context`, of which it has the K and V of all earlier
// rows. Tiles begin at multiples of 64: the first one also has the rows before `rows.first`.
std::vector<kernels::cuda::Tile> TilesOfContextRows(RowRange rows, const ContextKeys& context);

// Consecutive rows of a context: rows [first, first + y.size()) of `features`.
struct ContextRows {
  const RowEncoderState& encoder_state;
  const FeatureMatrix& features;
  int64_t first = 0;
  absl::Span<const float> y;  // of these rows
};
// Encodes and embeds rows of a context as the first rows of `set`. Overwrites q of these rows.
void EmbedContextRows(const DeviceModel& model, const ContextRows& rows, const TileSet& set,
                      const LaunchWorkspace& launch);

// Returns the row tiles [tiles.first, tiles.first + tiles.rows) of `set`.
TileSet PartOf(const TileSet& set, const KernelShape& shape, RowRange tiles);

// Computes a phase other than phase 0 for the tiles of one chunk. `mixtures`: see LayerForm::Head.
void RunPhase(const Forward& forward, int64_t phase, int64_t layers, const TileSet& set,
              float* mixtures);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_LAYER_PASS_H_
