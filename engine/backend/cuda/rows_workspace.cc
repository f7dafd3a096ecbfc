#include "engine/backend/cuda/rows_workspace.h"

#include "base/integer_math.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

using kernels::cuda::kTileRows;
using kernels::cuda::Tile;

RowsWorkspaceLayout::RowsWorkspaceLayout(const KernelShape& shape, int64_t rows, Use rows_use)
    : use(rows_use), count(CeilDiv(rows, kTileRows)) {
  ArenaLayout arena(kAlignment);
  x = arena.Take<float>(count * kTileRows * shape.width);
  q = arena.Take<uint16_t>(count * kTileRows * shape.q_stride);
  tiles = arena.Take<Tile>(count);
  if (use == Use::kPredict) {
    mixtures = arena.Take<float>(count * kTileRows * 3 * shape.components);
  }
  bytes = arena.bytes();
}

int64_t RowsBytes(const KernelShape& shape, int64_t rows) {
  return ArrayBytes<float>(rows * shape.width);
}

TileSet RowsWorkspaceLayout::Set(char* memory, int64_t largest_context, bool weighted) const {
  return {.tiles = tiles.At(memory),
          .x = x.At(memory),
          .q = q.At(memory),
          .count = static_cast<int32_t>(count),
          .largest_context = largest_context,
          .encodes = use == Use::kEncode,
          .weighted = weighted};
}

}  // namespace chorale::cuda
