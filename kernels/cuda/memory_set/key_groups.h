// Groups of the keys of each K/V head.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_KEY_GROUPS_H_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_KEY_GROUPS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels::cuda {

// Group g of a head has the keys member[group_begin[g]] to member[group_begin[g + 1] - 1], in their
// order. Pointers are device memory.
struct KeyGroups {
  int32_t* member = nullptr;       // [Hkv, n]
  int32_t* group_begin = nullptr;  // [Hkv, groups + 1]
  int32_t n = 0;
  int32_t groups = 0;
};

// InvalidArgument naming the field.
absl::Status ValidateKeyGroups(const KeyGroups& groups);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_KEY_GROUPS_H_
