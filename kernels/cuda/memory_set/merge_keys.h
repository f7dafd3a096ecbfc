// The keys of a new memory set: weighted means of groups of keys (kernels/ops/merge_keys.h), in
// float64, or copies of single keys.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_MERGE_KEYS_H_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_MERGE_KEYS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/memory_set/key_groups.h"
#include "kernels/cuda/memory_set/memory_keys.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// One call stores groups [first_group, end_group), and with the last group also the padding of the
// last key block: K and V of zero, and the log-weight kNoKeyLogWeight. Pointers are device memory.
struct MergeKeysParams {
  MemoryKeys keys;
  KeyGroups groups;  // of keys as MemoryKeys numbers them, n = keys.keys(); no group is empty
  // [Hkv, groups] f32, in units of log 2, or null: those of the merged keys.
  const float* new_log_weights = nullptr;
  // One layer of a context of groups.groups keys.
  uint16_t* set_kv = nullptr;        // [ContextLayerSize(groups, Hkv, Dh)] bf16
  float* set_log_weights = nullptr;  // [Hkv, ContextWeights(groups)] f32
  int32_t first_group = 0;
  int32_t end_group = 0;
  ModelShape shape;  // H, Hkv, Dh
};

// InvalidArgument naming the field.
absl::Status ValidateMergeKeys(const MergeKeysParams& params);

// A group of one key is copied bit by bit. REQUIRES: ValidateMergeKeys(params).ok().
ErrorCode LaunchMergeKeys(const MergeKeysParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_MERGE_KEYS_H_
