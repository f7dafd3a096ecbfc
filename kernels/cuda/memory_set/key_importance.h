// The importance of keys, as kernels/ops/key_attention.h defines it, from the queries and results
// of LaunchMeasuringAttention.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_KEY_IMPORTANCE_H_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_KEY_IMPORTANCE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/memory_set/memory_keys.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// Pointers are device memory.
struct KeyImportanceParams {
  MemoryKeys keys;
  // Of the measuring rows, as in MeasuringAttentionParams.
  const uint16_t* q = nullptr;
  int64_t q_stride = 0;  // a multiple of 8
  const int32_t* hidden_places = nullptr;
  const float* out = nullptr;
  const float* lse = nullptr;
  // [Hkv, keys.places()] f64. Between the set and the segment, the importance is 0.
  double* importance = nullptr;
  int32_t rows = 0;
  // The key blocks whose importance is written.
  int32_t first_key_block = 0;
  int32_t end_key_block = 0;  // at most ContextKeyBlocks(keys.places())
  ModelShape shape;           // H, Hkv, Dh
};

// InvalidArgument naming the field.
absl::Status ValidateKeyImportance(const KeyImportanceParams& params);

// The result of a key does not depend on the other keys of the launch. REQUIRES:
// ValidateKeyImportance(params).ok().
ErrorCode LaunchKeyImportance(const KeyImportanceParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_KEY_IMPORTANCE_H_
