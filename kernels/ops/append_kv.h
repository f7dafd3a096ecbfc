// Appends keys and values to a path's or a context's K/V, without moving the existing ones.
#ifndef CHORALE_KERNELS_OPS_APPEND_KV_H_
#define CHORALE_KERNELS_OPS_APPEND_KV_H_

#include <cstdint>

#include "absl/status/status.h"

namespace chorale::kernels {

struct AppendKvParams {
  const float* k = nullptr;  // [n, Hkv, Dh], row stride kv_stride
  const float* v = nullptr;  // [n, Hkv, Dh], row stride kv_stride
  float* keys = nullptr;     // [Hkv] packed keys of that capacity, see panel_layout.h
  float* values = nullptr;   // [Hkv, capacity, Dh]
  int64_t n = 0;
  int64_t offset = 0;    // position of the first new key; offset + n <= capacity
  int64_t capacity = 0;  // maximum number of keys
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t kv_stride = 0;
};

absl::Status ValidateAppendKv(const AppendKvParams& params);

// REQUIRES: ValidateAppendKv(params).ok(). Calls on disjoint key ranges may run at the same time.
void AppendKv(const AppendKvParams& params);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_OPS_APPEND_KV_H_
