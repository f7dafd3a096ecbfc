#include "engine/backend/cuda/rows_workspace.h"

#include "base/integer_math.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale::cuda {

using kernels::cuda::kTileRows;
using kernels::cuda::Tile;

namespace {

// The offset of `size` bytes behind the `bytes` that are taken.
int64_t Take(int64_t size, int64_t& bytes) {
  const int64_t offset = bytes;
  bytes = RoundUp(bytes + size, kAlignment);
  return offset;
}

}  // namespace

RowMemory::RowMemory(const KernelShape& shape, int64_t rows, Use use)
    : count(CeilDiv(rows, kTileRows)) {
  x = Take(count * kTileRows * shape.width * 4, bytes);
  q = Take(count * kTileRows * shape.queries * 2, bytes);
  tiles = Take(count * static_cast<int64_t>(sizeof(Tile)), bytes);
  if (use == Use::kPredict) {
    mixtures = Take(count * kTileRows * 3 * shape.components * 4, bytes);
  }
}

int64_t RowsBytes(const KernelShape& shape, int64_t rows) {
  return RoundUp(rows * shape.width * 4, kAlignment);
}

TileSet RowMemory::Set(char* memory, int64_t largest_context) const {
  return {.tiles = reinterpret_cast<Tile*>(memory + tiles),
          .x = reinterpret_cast<float*>(memory + x),
          .q = reinterpret_cast<uint16_t*>(memory + q),
          .count = static_cast<int32_t>(count),
          .largest_context = largest_context};
}

}  // namespace chorale::cuda
