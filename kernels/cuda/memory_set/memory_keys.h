// The keys of one layer from which its K/V heads choose a memory set (engine/data/memory_set.h).
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_MEMORY_KEYS_H_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_MEMORY_KEYS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/integer_math.h"
#include "kernels/cuda/layout/kv_cache.h"

namespace chorale::kernels::cuda {

// The keys of the set so far, and then those of a segment's rows. In memory, the segment begins
// with a key block of its own: key i is in place PlaceOf(i). Padding keys are between the two, so
// that rows can attend to all places as to one context of places() rows. Pointers are device
// memory.
struct MemoryKeys {
  uint16_t* kv = nullptr;        // [ContextLayerSize(places(), Hkv, Dh)] bf16
  float* log_weights = nullptr;  // [Hkv, ContextWeights(places())] f32, in units of log 2
  int32_t set_keys = 0;
  int32_t segment_rows = 0;

  constexpr int32_t keys() const { return set_keys + segment_rows; }
  // The place of the segment's first row.
  constexpr int32_t first_row() const {
    return static_cast<int32_t>(RoundUp(set_keys, kKeyBlockKeys));
  }
  constexpr int32_t places() const { return first_row() + segment_rows; }
  constexpr int32_t PlaceOf(int32_t key) const {
    return key < set_keys ? key : key - set_keys + first_row();
  }
};

// InvalidArgument naming the field.
absl::Status ValidateMemoryKeys(const MemoryKeys& keys);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_MEMORY_KEYS_H_
