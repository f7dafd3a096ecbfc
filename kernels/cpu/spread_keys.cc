// The order of work for one group of centres:
//
// clang-format off
//   for each key                                  one Philox block for four keys
//     priority; keep the largest                  most keys need no logarithm: -log(1 - u) > u, so
//                                                 w d^2 / u bounds the priority
//   for each kFmaVectors vectors of keys
//     squared distances to all centres of the group, of differences, in registers
//     distance, nearest = the smaller
// clang-format on
#include "kernels/ops/spread_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/integer_math.h"
#include "kernels/cpu/enabled_targets.h"
#include "kernels/cpu/export_kernel.h"
#include "kernels/ops/panel_layout.h"
#include "kernels/ops/random.h"
#include "kernels/ops/step_draw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/spread_keys.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/centres-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

CentredKeys KeysOf(const SpreadKeysParams& p) {
  return {.keys = p.keys,
          .distance = p.distance,
          .nearest = p.nearest,
          .n = p.n,
          .head_dim = p.head_dim};
}

void InitState(const SpreadKeysParams& p) {
  double largest = 0;
  if (p.log_weights != nullptr) largest = *std::max_element(p.log_weights, p.log_weights + p.n);
  for (int64_t j = 0; j < p.n; ++j) {
    p.weight[j] = p.log_weights == nullptr ? 1.0 : std::exp(p.log_weights[j] - largest);
  }
  const int64_t padded = RoundUp(p.n, kPanel);
  std::fill_n(p.distance, padded, 1.0f);
  std::fill_n(p.nearest, padded, 0);
}

// Draws the centres of the group, and stores them.
void Draw(const SpreadKeysParams& p, CentreGroup& group) {
  LargestPriorities largest(group.count);
  const uint64_t path =
      (static_cast<uint64_t>(p.stream) << 32) | static_cast<uint64_t>(group.first / kCentresAtOnce);
  for (int64_t j = 0; j < p.n; j += 4) {
    const std::array<uint32_t, 4> words =
        RandomBlock(p.seed, path, static_cast<uint32_t>(j / 4), RandomStream::kCentre);
    for (int64_t i = j; i < std::min(j + 4, p.n); ++i) {
      if (p.distance[i] < 0) continue;  // a centre
      const double square = std::max(static_cast<double>(p.distance[i]), kLeastSquare);
      double value = p.weight[i] * square;
      if (!(value > 0)) value = 0;  // NaN has no order
      const double u = (words[i - j] + 0.5) * 0x1p-32;
      if (largest.Excludes(value / u)) continue;
      largest.Add(value / -std::log1p(-u), i);
    }
  }
  for (int64_t c = 0; c < group.count; ++c) {
    const int32_t key = largest.key(c);
    p.centres[group.first + c] = key;
    group.Take(KeysOf(p), c, key);
  }
}

void SpreadKeys(const SpreadKeysParams& p) {
  CentreGroup group;
  if (p.first_centre == 0) InitState(p);
  for (group.first = p.first_centre; group.first < p.end_centre; group.first += kCentresAtOnce) {
    group.count = std::min(kCentresAtOnce, p.end_centre - group.first);
    Draw(p, group);
    if (group.first == 0) {  // so far, the distances were 1
      std::fill_n(p.distance, p.n, std::numeric_limits<float>::infinity());
    }
    Join(KeysOf(p), group);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
CHORALE_EXPORT_KERNEL(SpreadKeys)
#endif  // HWY_ONCE
