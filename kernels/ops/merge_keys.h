// Weighted means of groups of keys of a K/V head, and of their values:
//
//   w = sum of w_j,   key = sum of w_j key_j / w,   value = sum of w_j value_j / w
//
// over the keys j of a group, in float64. A group of one key is a copy of it.
#ifndef CHORALE_KERNELS_OPS_MERGE_KEYS_H_
#define CHORALE_KERNELS_OPS_MERGE_KEYS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

// One call computes groups [first_group, end_group).
struct MergeKeysParams {
  const float* keys = nullptr;         // packed keys of one K/V head, see panel_layout.h
  const float* values = nullptr;       // [n, Dh]
  const float* log_weights = nullptr;  // [n], finite; null: all weights are 1

  // Group g has the keys member[group_begin[g]] to member[group_begin[g + 1] - 1], at least one.
  const int32_t* member = nullptr;
  const int32_t* group_begin = nullptr;  // [groups + 1]

  float* out_keys = nullptr;         // packed keys of capacity `groups`
  float* out_values = nullptr;       // [groups, Dh]
  float* out_log_weights = nullptr;  // [groups]

  int64_t n = 0;
  int64_t head_dim = 0;  // Dh
  int64_t groups = 0;
  int64_t first_group = 0;
  int64_t end_group = 0;
};

absl::Status ValidateMergeKeys(const MergeKeysParams& params);

// Calls on disjoint ranges of groups may run at the same time. REQUIRES:
// ValidateMergeKeys(params).ok().
void MergeKeys(const MergeKeysParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_MERGE_KEYS_H_
