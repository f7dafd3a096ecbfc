#include "engine/backend/cuda/decode_workspace.h"

#include <algorithm>

#include "engine/backend/cuda/decode_work.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {
namespace {

using kernels::cuda::kTilePaths;
using kernels::cuda::kTileRows;
using kernels::cuda::PathTile;
using kernels::cuda::Tile;

// Returns the bytes for all steps of a tile that keeps no mixtures, or for one step with its
// mixtures, whichever is larger.
int64_t OutputsBytes(const KernelShape& shape) {
  return std::max(StepOutputsLayout(kMostBatchSteps, kTilePaths, 0).bytes,
                  StepOutputsLayout(1, kTilePaths, shape.components).bytes);
}

}  // namespace

LaunchTilesLayout::LaunchTilesLayout(int64_t count) {
  ArenaLayout arena(kAlignment);
  tiles = arena.Take<Tile>(count);
  paths = arena.Take<PathTile>(count);
  bytes = arena.bytes();
}

DecodeWorkspace::DecodeWorkspace(const DeviceModel& model, const LaunchWorkspace& memory)
    : memory_(memory),
      most_tiles_(memory.bytes / TileBytes(model)),
      outputs_bytes_(most_tiles_ * OutputsBytes(model.shape())) {
  const KernelShape& shape = model.shape();
  ArenaLayout arena(kAlignment);
  tiles_ = arena.Take<char>(LaunchTilesLayout(most_tiles_).bytes);
  x_ = arena.Take<float>(most_tiles_ * kTileRows * shape.width);
  q_ = arena.Take<uint16_t>(most_tiles_ * kTileRows * shape.q_stride);
  outputs_ = arena.Take<char>(outputs_bytes_);
  scratch_offset_ = arena.bytes();
}

int64_t DecodeWorkspace::TileBytes(const DeviceModel& model) {
  const KernelShape& shape = model.shape();
  constexpr int64_t kArrays = 5;  // each is padded to kAlignment for any number of tiles
  return static_cast<int64_t>(sizeof(Tile) + sizeof(PathTile)) + TileRowBytes(shape) +
         OutputsBytes(shape) + model.layer_form().ScratchBytes() + kArrays * kAlignment;
}

TileSet DecodeWorkspace::Set(int64_t count, int64_t largest_context, bool weighted) const {
  const LaunchTilesLayout layout(count);
  return {.tiles = layout.tiles.At(tiles()),
          .paths = layout.paths.At(tiles()),
          .x = x_.At(memory_.memory),
          .q = q_.At(memory_.memory),
          .count = static_cast<int32_t>(count),
          .largest_context = largest_context,
          .weighted = weighted};
}

LaunchWorkspace DecodeWorkspace::scratch() const {
  return {memory_.device, memory_.memory + scratch_offset_, memory_.bytes - scratch_offset_};
}

}  // namespace chorale::cuda
