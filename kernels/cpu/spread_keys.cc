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
#include "kernels/cpu/attention_tile-inl.h"
#include "kernels/cpu/fma_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

inline constexpr double kLeastSquare = 1e-30;

struct alignas(64) CentreGroup {
  float elements[kCentresAtOnce * kMaxHeadDim];  // [centre][head_dim]
  int32_t keys[kCentresAtOnce];
  int64_t first = 0;  // index of the first centre
  int64_t count = 0;
};

// The keys with the largest priorities so far, the largest first.
class LargestPriorities {
 public:
  explicit LargestPriorities(int64_t count) : count_(count) {}

  // Whether a priority of at most `bound` cannot be among the largest. Keys arrive in ascending
  // order, so a key with an equal priority is not either.
  bool Excludes(double bound) const { return found_ == count_ && !(bound > priority_[count_ - 1]); }

  void Add(double priority, int64_t key) {
    if (Excludes(priority)) return;
    int64_t at = found_ < count_ ? found_++ : count_ - 1;
    for (; at > 0 && priority > priority_[at - 1]; --at) {
      priority_[at] = priority_[at - 1];
      key_[at] = key_[at - 1];
    }
    priority_[at] = priority;
    key_[at] = static_cast<int32_t>(key);
  }

  int32_t key(int64_t i) const { return key_[i]; }

 private:
  const int64_t count_;
  int64_t found_ = 0;
  double priority_[kCentresAtOnce];
  int32_t key_[kCentresAtOnce];
};

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
    group.keys[c] = p.centres[group.first + c] = key;
    const float* from = p.keys + (key / kPanel) * p.head_dim * kPanel + key % kPanel;
    for (int64_t i = 0; i < p.head_dim; ++i) {
      group.elements[c * p.head_dim + i] = from[i * kPanel];
    }
  }
}

// Lowers the distances of kVectors vectors of keys to those to kRows centres of the group, from
// centre `row` on.
template <int kRows, int kVectors>
HWY_INLINE void Approach(const SpreadKeysParams& p, const CentreGroup& group, int64_t row,
                         int64_t key) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const auto at = [&](int64_t k) {
    return p.keys + (k / kPanel) * p.head_dim * kPanel + k % kPanel;
  };
  const float* const keys[2] = {at(key), kVectors > 1 ? at(key + kLanes) : at(key)};
  VF32 sum[kRows][kVectors];
  CHORALE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    CHORALE_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  const float* elements = group.elements + row * p.head_dim;
  for (int64_t c = 0; c < p.head_dim; ++c) {
    VF32 element[kVectors];
    CHORALE_UNROLL
    for (int v = 0; v < kVectors; ++v) element[v] = hn::LoadU(d, keys[v] + c * kPanel);
    CHORALE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const VF32 centre = hn::Set(d, elements[r * p.head_dim + c]);
      CHORALE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const VF32 difference = hn::Sub(element[v], centre);
        sum[r][v] = hn::MulAdd(difference, difference, sum[r][v]);
      }
    }
  }
  const VF32 most = hn::Set(d, std::numeric_limits<float>::max());
  CHORALE_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    float* distance = p.distance + key + v * kLanes;
    int32_t* nearest = p.nearest + key + v * kLanes;
    VF32 least = hn::LoadU(d, distance);
    auto centre = hn::LoadU(di, nearest);
    CHORALE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      // NaN becomes `most`; hn::Min does not define its result.
      const VF32 bounded = hn::IfThenElse(hn::Lt(sum[r][v], most), sum[r][v], most);
      const auto nearer = hn::Lt(bounded, least);
      least = hn::IfThenElse(nearer, bounded, least);
      centre = hn::IfThenElse(hn::RebindMask(di, nearer),
                              hn::Set(di, static_cast<int32_t>(group.first + row + r)), centre);
    }
    hn::StoreU(least, d, distance);
    hn::StoreU(centre, di, nearest);
  }
}

template <int kRows>
HWY_NOINLINE void ApproachAll(const SpreadKeysParams& p, const CentreGroup& group, int64_t row) {
  const int64_t padded = RoundUp(p.n, kPanel);
  int64_t key = 0;
  for (; key + kFmaVectors * kLanes <= padded; key += kFmaVectors * kLanes) {
    Approach<kRows, kFmaVectors>(p, group, row, key);
  }
  if (key < padded) Approach<kRows, 1>(p, group, row, key);
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
    for (int64_t c = 0; c < group.count; ++c) {
      p.distance[group.keys[c]] = -1;
      p.nearest[group.keys[c]] = static_cast<int32_t>(group.first + c);
    }
    int64_t row = 0;
    for (; row + kFmaRows <= group.count; row += kFmaRows) ApproachAll<kFmaRows>(p, group, row);
    for (; row < group.count; ++row) ApproachAll<1>(p, group, row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
CHORALE_EXPORT_KERNEL(SpreadKeys)
#endif  // HWY_ONCE
