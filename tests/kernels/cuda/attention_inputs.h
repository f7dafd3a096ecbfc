// Inputs of the tests of attention.
#ifndef CHORALE_TESTS_KERNELS_CUDA_ATTENTION_INPUTS_H_
#define CHORALE_TESTS_KERNELS_CUDA_ATTENTION_INPUTS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/matrix.h"
#include "tests/kernels/simd_targets.h"

namespace chorale::kernels::cuda {

inline constexpr uint16_t kNanBf16 = 0x7fff;

// Element 0 of every query, so that element 0 of a key shifts all its scores by a chosen number.
inline constexpr float kQueryLevel = 4;

// The nearest numbers that are exactly representable in bf16.
inline std::vector<float> Rounded(std::vector<float> values) {
  for (float& x : values) x = FromBf16(ToBf16(x));
  return values;
}

// Logarithms of weights from 2^-largest to 2^largest, in units of log 2. Zeros if `largest` is 0.
inline std::vector<float> RandomLogWeights(int64_t n, uint32_t seed, float largest) {
  std::vector<float> log_weights = RandomTensor(n, seed, largest / 2);
  for (float& x : log_weights) x = std::clamp(x, -largest, largest);
  return log_weights;
}

// [Hkv][keys] as Tile::context_log_weights has them in a context of so many rows, in one of some
// layers. Everything else is NaN.
inline std::vector<float> PackLogWeights(const std::vector<float>& log_weights, int kv_heads,
                                         int64_t capacity, int layer, int layers) {
  const auto keys = static_cast<int64_t>(log_weights.size()) / kv_heads;
  std::vector<float> packed(layers * kv_heads * ContextWeights(capacity),
                            std::numeric_limits<float>::quiet_NaN());
  for (int head = 0; head < kv_heads; ++head) {
    std::copy_n(log_weights.begin() + head * keys, keys,
                packed.begin() + ContextWeightsAt(layer, head, capacity, kv_heads));
  }
  return packed;
}

// The same numbers as natural logarithms, for the reference.
inline std::vector<float> NaturalLogWeights(std::vector<float> log_weights) {
  for (float& x : log_weights) x *= std::numbers::ln2_v<float>;
  return log_weights;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_ATTENTION_INPUTS_H_
