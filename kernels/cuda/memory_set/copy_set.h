// Copies a memory set from a context to the keys of one layer from which the next set is chosen.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_COPY_SET_H_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_COPY_SET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/memory_set/memory_keys.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// Pointers are device memory.
struct CopySetParams {
  // Written: K, V and log-weights of the set and of the places after it, and the log-weights of the
  // segment's rows, which are 0. K and V of these rows remain.
  MemoryKeys keys;
  // One layer of a context of keys.set_keys keys; null if there are none. K and V of the padding
  // are zero.
  const uint16_t* set_kv = nullptr;        // [ContextLayerSize(set_keys, Hkv, Dh)] bf16
  const float* set_log_weights = nullptr;  // [Hkv, ContextWeights(set_keys)] f32
  ModelShape shape;                        // H, Hkv, Dh
};

// InvalidArgument naming the field.
absl::Status ValidateCopySet(const CopySetParams& params);

// REQUIRES: ValidateCopySet(params).ok().
ErrorCode LaunchCopySet(const CopySetParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_COPY_SET_H_
