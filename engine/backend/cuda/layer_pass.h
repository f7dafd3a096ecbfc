// Work that takes many rows through the model at once: encoding a context, encoding the rows of a
// request, a density in one pass, point predictions.
//
// All rows of a piece of work go through a layer before the first enters the next, in chunks of
// tiles (engine/backend/layer_schedule.h). Phase 0 embeds and runs PreAttention(0); phase l runs
// attention and MLP of layer l - 1 and PreAttention(l); phase L runs attention and MLP of the last
// layer and the head. A step is one chunk.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_LAYER_PASS_H_
#define CHORALE_ENGINE_BACKEND_CUDA_LAYER_PASS_H_

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/layer_schedule.h"

namespace chorale::cuda {

// Row tiles of one step: one for each multiprocessor, at least 64, but no more than
// LayerForm::most_tiles.
int64_t ChunkTiles(const DeviceModel& model, const Device& device);

// Tiles of rows that do not belong to paths: no row sees another one.
std::vector<kernels::cuda::Tile> TilesOfRows(int64_t rows, uint16_t* context, int64_t context_rows);

// Row tiles [tiles.first, tiles.first + tiles.rows) of `set`.
TileSet PartOf(const TileSet& set, const KernelShape& shape, RowRange tiles);

// Takes the tiles of one chunk through a phase after the first. `mixtures`: see LayerForm::Head.
void RunPhase(const Forward& forward, int64_t phase, int64_t layers, const TileSet& set,
              float* mixtures);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_LAYER_PASS_H_
