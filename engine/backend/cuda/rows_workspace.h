// The memory of rows that go through the layers by themselves, in tiles of 64, and how it is
// divided.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_ROWS_WORKSPACE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_ROWS_WORKSPACE_H_

#include <cstdint>

#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/model.h"

namespace chorale::cuda {

// Byte offsets of what is kept of rows that go through the layers by themselves, in tiles of 64:
// those of a context that is encoded, and those of point predictions, whose mixtures are kept too.
struct RowMemory {
  enum class Use { kEncode, kPredict };
  RowMemory(const KernelShape& shape, int64_t rows, Use use);

  TileSet Set(char* memory, int64_t largest_context) const;

  int64_t count = 0;     // tiles
  int64_t x = 0;         // [count, 64, D] f32
  int64_t q = 0;         // [count, 64, H Dh] bf16
  int64_t tiles = 0;     // [count] Tile
  int64_t mixtures = 0;  // [count, 64, 3, M] f32
  int64_t bytes = 0;
};

// Of the encoded rows of a request, [T, D] f32.
int64_t RowsBytes(const KernelShape& shape, int64_t rows);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_ROWS_WORKSPACE_H_
