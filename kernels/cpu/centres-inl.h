// Parts of k-means++ (kernels/ops/spread_keys.h, kernels/ops/spread_in_cells.h).
//
// Compiled once per SIMD target, so it has no ordinary include guard.
#if defined(CHORALE_KERNELS_CPU_CENTRES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHORALE_KERNELS_CPU_CENTRES_INL_H_
#undef CHORALE_KERNELS_CPU_CENTRES_INL_H_
#else
#define CHORALE_KERNELS_CPU_CENTRES_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "base/integer_math.h"
#include "hwy/highway.h"
#include "kernels/cpu/attention_tile-inl.h"
#include "kernels/cpu/fma_tile-inl.h"
#include "kernels/ops/panel_layout.h"
#include "kernels/ops/spread_keys.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {

inline constexpr double kLeastSquare = 1e-30;

// Keys, and the nearest centre of each.
struct CentredKeys {
  const float* keys = nullptr;  // packed
  float* distance = nullptr;    // [RoundUp(n, kPanel)], squared; -1 of a centre
  int32_t* nearest = nullptr;   // [RoundUp(n, kPanel)]
  int64_t n = 0;
  int64_t head_dim = 0;
};

struct alignas(64) CentreGroup {
  float elements[kCentresAtOnce * kMaxHeadDim];  // [centre][head_dim]
  int32_t keys[kCentresAtOnce];
  int64_t first = 0;  // index of the first centre
  int64_t count = 0;

  // Key `key` is centre c of the group.
  void Take(const CentredKeys& p, int64_t c, int32_t key) {
    keys[c] = key;
    const float* from = p.keys + (key / kPanel) * p.head_dim * kPanel + key % kPanel;
    for (int64_t i = 0; i < p.head_dim; ++i) elements[c * p.head_dim + i] = from[i * kPanel];
  }
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

  // No key with a priority of at most this is among the largest, if no priority is negative.
  double threshold() const { return found_ == count_ ? priority_[count_ - 1] : -1; }

  int32_t key(int64_t i) const { return key_[i]; }

 private:
  const int64_t count_;
  int64_t found_ = 0;
  double priority_[kCentresAtOnce];
  int32_t key_[kCentresAtOnce];
};

// Lowers the distances of kVectors vectors of keys to those to kRows centres of the group, from
// centre `row` on.
template <int kRows, int kVectors>
HWY_INLINE void Approach(const CentredKeys& p, const CentreGroup& group, int64_t row, int64_t key) {
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
HWY_NOINLINE void ApproachAll(const CentredKeys& p, const CentreGroup& group, int64_t row) {
  const int64_t padded = RoundUp(p.n, kPanel);
  int64_t key = 0;
  for (; key + kFmaVectors * kLanes <= padded; key += kFmaVectors * kLanes) {
    Approach<kRows, kFmaVectors>(p, group, row, key);
  }
  if (key < padded) Approach<kRows, 1>(p, group, row, key);
}

// Updates distances and nearest centres, once all centres of the group are taken.
inline void Join(const CentredKeys& p, const CentreGroup& group) {
  for (int64_t c = 0; c < group.count; ++c) {
    p.distance[group.keys[c]] = -1;
    p.nearest[group.keys[c]] = static_cast<int32_t>(group.first + c);
  }
  int64_t row = 0;
  for (; row + kFmaRows <= group.count; row += kFmaRows) ApproachAll<kFmaRows>(p, group, row);
  if (kFmaRows > 4 && row + 4 <= group.count) {
    ApproachAll<4>(p, group, row);
    row += 4;
  }
  if (row + 2 <= group.count) {
    ApproachAll<2>(p, group, row);
    row += 2;
  }
  if (row < group.count) ApproachAll<1>(p, group, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
