// Centres that are spread out over the keys of each cell, and the keys that join each of them:
// kernels/ops/spread_in_cells.h on a GPU, with the same random numbers. Distances are float32,
// priorities float64.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_SPREAD_IN_CELLS_H_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_SPREAD_IN_CELLS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/memory_set/divide_centres.h"
#include "kernels/cuda/memory_set/key_groups.h"
#include "kernels/cuda/memory_set/memory_keys.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// Bytes of SpreadInCellsParams::scratch: for n keys and C cells of each head.
int64_t SpreadInCellsScratch(int64_t n, int64_t cells, const ModelShape& shape);

// One call takes cells [first_cell, end_cell) of all heads. Keys are numbered as in MemoryKeys, n =
// keys.keys(). Pointers are device memory.
struct SpreadInCellsParams {
  MemoryKeys keys;
  const double* weight = nullptr;    // [Hkv, n], as LaunchSpreadKeys writes it
  const int32_t* centres = nullptr;  // [Hkv, C], coarse
  CentreCells cells;                 // cells.keys.n = n
  // Written: the keys of each centre. Those of a cell are the groups of its centres, and have the
  // place in `member` that they have in that of `cells`, which is another array.
  KeyGroups groups;
  // For cells whose state exceeds shared memory; aligned to 16 bytes.
  char* scratch = nullptr;
  int32_t first_cell = 0;
  int32_t end_cell = 0;
  uint64_t seed = 0;
  uint32_t first_stream = 0;         // the stream of head h is first_stream + h
  ModelShape shape;                  // H, Hkv, Dh
  int32_t shared_bytes = 99 * 1024;  // that a block of the device can have; affects speed alone
};

// The keys of the largest cell whose state is in shared memory.
int SpreadSharedKeys(int head_dim, int shared_bytes);

// InvalidArgument naming the field.
absl::Status ValidateSpreadInCells(const SpreadInCellsParams& params);

// One launch. REQUIRES: ValidateSpreadInCells(params).ok().
ErrorCode LaunchSpreadInCells(const SpreadInCellsParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_SPREAD_IN_CELLS_H_
