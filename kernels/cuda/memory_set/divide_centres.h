// The cells of each K/V head, and how many centres each of them draws: the definition of
// engine/backend/host/divide_centres.h on a GPU, in float64 and in the same order.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_DIVIDE_CENTRES_H_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_DIVIDE_CENTRES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/memory_set/key_groups.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// The cells of each head, and their centres, in the order of the cells. Pointers are device memory.
struct CentreCells {
  KeyGroups keys;                   // of C cells
  int32_t* centre_begin = nullptr;  // [Hkv, C + 1]: cell c draws those from centre_begin[c] on
};

// Bytes of DivideCentresParams::scratch: for n keys and C cells of each head.
int64_t DivideCentresScratch(int64_t n, int64_t cells, int64_t kv_heads);

// Pointers are device memory.
struct DivideCentresParams {
  // As LaunchSpreadKeys leaves them, with one coarse centre for each cell.
  const int32_t* nearest = nullptr;  // [Hkv, n]
  const float* distance = nullptr;   // [Hkv, n]
  const double* weight = nullptr;    // [Hkv, n]
  CentreCells cells;                 // written
  char* scratch = nullptr;           // aligned to 16 bytes
  int32_t centre_count = 0;          // M: at least C, at most n
  int32_t kv_heads = 0;
  int32_t shared_bytes = 99 * 1024;  // that a block of the device can have; affects speed alone
};

// InvalidArgument naming the field.
absl::Status ValidateCentreCells(const CentreCells& cells);
absl::Status ValidateDivideCentres(const DivideCentresParams& params);

// REQUIRES: ValidateDivideCentres(params).ok(); a key has joined each of the coarse centres.
ErrorCode LaunchDivideCentres(const DivideCentresParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_DIVIDE_CENTRES_H_
