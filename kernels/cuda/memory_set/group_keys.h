// The keys that join each centre (spread_keys.h), as groups for LaunchMergeKeys.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_GROUP_KEYS_H_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_GROUP_KEYS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// Groups of keys of each head: group g has the keys member[group_begin[g]] to
// member[group_begin[g + 1] - 1], in their order. Pointers are device memory.
struct KeyGroups {
  int32_t* member = nullptr;       // [Hkv, n]
  int32_t* group_begin = nullptr;  // [Hkv, groups + 1]
  int32_t n = 0;
  int32_t groups = 0;
};

// Writes groups [first_group, end_group): group g has the keys whose nearest centre is g.
struct GroupKeysParams {
  const int32_t* nearest = nullptr;  // [Hkv, n], less than `groups`; device
  KeyGroups groups;
  int32_t first_group = 0;
  int32_t end_group = 0;
  int32_t kv_heads = 0;
};

// InvalidArgument naming the field.
absl::Status ValidateKeyGroups(const KeyGroups& groups, int32_t first_group, int32_t end_group);
absl::Status ValidateGroupKeys(const GroupKeysParams& params);

// The time is proportional to the number of groups times n. REQUIRES:
// ValidateGroupKeys(params).ok().
ErrorCode LaunchGroupKeys(const GroupKeysParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_GROUP_KEYS_H_
