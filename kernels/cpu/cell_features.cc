#include "kernels/ops/cell_features.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/enabled_targets.h"
#include "kernels/cpu/export_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cell_features.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// Include after highway.h: compiled once per target.
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The size of a batch of numbers, gathered from their rows. A multiple of every vector length, so
// that the result of a number does not depend on its index.
inline constexpr int64_t kBatch = 64;

// Writes features(x[i]) to out[f * kBatch + i].
void FeaturesOfBatch(const float* HWY_RESTRICT x, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const auto limit = hn::Set(d, kSoftLimit);
  for (int64_t i = 0; i < kBatch; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto v = hn::LoadU(d, x + i);
    const auto size = hn::Abs(v);
    const auto beyond = hn::Max(hn::Sub(size, limit), hn::Zero(d));
    const auto clipped = hn::CopySign(
        hn::IfThenElse(hn::Gt(size, limit), hn::Add(limit, hn::Log1p(d, beyond)), size), v);
    hn::StoreU(clipped, d, out + i);
    auto angle = clipped;
    for (int64_t k = 0; k < kFrequencies; ++k) {
      hn::StoreU(hn::Sin(d, angle), d, out + (1 + k) * kBatch + i);
      hn::StoreU(hn::Cos(d, angle), d, out + (1 + kFrequencies + k) * kBatch + i);
      angle = hn::Add(angle, angle);
    }
  }
}

void CellFeatures(const CellFeaturesParams& p) {
  alignas(64) float numbers[kBatch];
  alignas(64) float features[kNumberFeatures * kBatch];
  const int64_t width = p.width();
  for (int64_t first = 0; first < p.rows; first += kBatch) {
    const int64_t rows = std::min(kBatch, p.rows - first);
    std::fill_n(numbers, kBatch, 0.0f);
    for (int64_t i = 0; i < rows; ++i) numbers[i] = p.values[(first + i) * p.value_stride];
    FeaturesOfBatch(numbers, features);
    for (int64_t i = 0; i < rows; ++i) {
      float* out = p.out + (first + i) * width;
      const bool missing = p.missing != nullptr && p.missing[(first + i) * p.value_stride] != 0;
      for (int64_t f = 0; f < kNumberFeatures; ++f) {
        out[f] = missing ? 0.0f : features[f * kBatch + i];
      }
      out[kNumberFeatures] = missing ? 1.0f : 0.0f;
      out[kNumberFeatures + 1] = p.categorical;
    }
    if (p.y == nullptr) continue;
    std::copy_n(p.y + first, rows, numbers);
    FeaturesOfBatch(numbers, features);
    for (int64_t i = 0; i < rows; ++i) {
      float* out = p.out + (first + i) * width + kCellFeatures;
      for (int64_t f = 0; f < kNumberFeatures; ++f) out[f] = features[f * kBatch + i];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
CHORALE_EXPORT_KERNEL(CellFeatures)
#endif  // HWY_ONCE
