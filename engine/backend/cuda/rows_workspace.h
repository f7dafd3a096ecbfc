// The layout of the memory for rows that do not belong to paths: the rows of a context that is
// being encoded (a range of the encode pool), or of marginal predictions (a range of the buffer
// pool).
#ifndef CHORALE_ENGINE_BACKEND_CUDA_ROWS_WORKSPACE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_ROWS_WORKSPACE_H_

#include <cstdint>

#include "base/arena_layout.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/model.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {

struct RowsWorkspaceLayout {
  enum class Use { kEncode, kPredict };
  RowsWorkspaceLayout(const KernelShape& shape, int64_t rows, Use rows_use);

  TileSet Set(char* memory, int64_t largest_context, bool weighted) const;

  Use use = Use::kEncode;
  int64_t count = 0;                      // tiles
  ArenaArray<float> x;                    // [count, 64, D]
  ArenaArray<uint16_t> q;                 // [count, 64, KernelShape::q_stride] bf16
  ArenaArray<kernels::cuda::Tile> tiles;  // [count]
  ArenaArray<float> mixtures;             // [count, 64, 3, M]; predictions only
  int64_t bytes = 0;
};

// Returns the bytes of the encoded query rows of a request, [T, D] f32.
int64_t RowsBytes(const KernelShape& shape, int64_t rows);

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_ROWS_WORKSPACE_H_
