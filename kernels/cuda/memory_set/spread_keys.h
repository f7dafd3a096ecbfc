// Centres that are spread out over the keys of each K/V head, and the nearest centre of every key:
// kernels/ops/spread_keys.h on a GPU, with the same random numbers. Distances are float32,
// priorities float64.
#ifndef CHORALE_KERNELS_CUDA_MEMORY_SET_SPREAD_KEYS_H_
#define CHORALE_KERNELS_CUDA_MEMORY_SET_SPREAD_KEYS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "base/integer_math.h"
#include "kernels/cuda/layout/model_shape.h"
#include "kernels/cuda/memory_set/memory_keys.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/ops/spread_keys.h"

namespace chorale::kernels::cuda {

// A head's keys are divided among blocks. Every block selects the keys of its largest priorities;
// the next group of centres is selected from those of all blocks.
inline constexpr int kSpreadThreads = 256;
inline constexpr int kMostSpreadBlocks = kSpreadThreads / kCentresAtOnce;
constexpr int64_t SpreadBlockKeys(int64_t n) {
  return RoundUp(CeilDiv(n, kMostSpreadBlocks), kSpreadThreads);
}
constexpr int64_t SpreadBlocks(int64_t n) { return CeilDiv(n, SpreadBlockKeys(n)); }

// A key with its priority, as an integer of the same order: 0 if there is no key.
struct SpreadCandidate {
  uint64_t priority = 0;
  int32_t key = -1;
  int32_t unused = 0;
};
// Elements of SpreadKeysParams::candidates, for any n.
constexpr int64_t SpreadCandidates(int64_t kv_heads) {
  return 2 * kv_heads * kMostSpreadBlocks * kCentresAtOnce;
}

// One call draws centres [first_centre, end_centre) of each head. A sequence of calls draws all
// `centre_count` centres, in any division into groups; the arrays carry over from call to call.
// Keys are numbered as in MemoryKeys, n = keys.keys(). Pointers are device memory.
struct SpreadKeysParams {
  MemoryKeys keys;
  double* weight = nullptr;               // [Hkv, n], relative to the head's largest
  float* distance = nullptr;              // [Hkv, n], squared, at most FLT_MAX; -1 of a centre
  int32_t* nearest = nullptr;             // [Hkv, n], index of a centre
  int32_t* centres = nullptr;             // [Hkv, centre_count], distinct keys
  SpreadCandidate* candidates = nullptr;  // [SpreadCandidates(Hkv)]
  int32_t centre_count = 0;               // at most n
  int32_t first_centre = 0;               // a multiple of kCentresAtOnce
  int32_t end_centre = 0;                 // a multiple of kCentresAtOnce, or centre_count
  uint64_t seed = 0;
  uint32_t first_stream = 0;  // the stream of head h is first_stream + h
  ModelShape shape;           // H, Hkv, Dh
};

// InvalidArgument naming the field.
absl::Status ValidateSpreadKeys(const SpreadKeysParams& params);

// A launch for each group of centres, and one more before the first group. REQUIRES:
// ValidateSpreadKeys(params).ok().
ErrorCode LaunchSpreadKeys(const SpreadKeysParams& params, Stream stream);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_MEMORY_SET_SPREAD_KEYS_H_
