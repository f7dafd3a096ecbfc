#include "kernels/ops/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/enabled_targets.h"
#include "kernels/cpu/export_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/layer_norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F64 = hn::ScalableTag<double>;
using VF64 = hn::Vec<F64>;
using F32Half = hn::Rebind<float, F64>;  // as many float32 lanes as float64 lanes
inline constexpr int64_t kLanes = HWY_LANES(double);

// All computation between load and store is in float64: rounding errors of the mean and the scale
// affect every element of a row and would not average out over the layers.
struct Row {
  const float* x;
  const float* residual;  // or null
  int64_t width;

  HWY_INLINE VF64 Load(int64_t i) const {
    const F64 d;
    const F32Half half;
    const VF64 v = hn::PromoteTo(d, hn::LoadU(half, x + i));
    return residual == nullptr ? v : hn::Add(v, hn::PromoteTo(d, hn::LoadU(half, residual + i)));
  }
  double At(int64_t i) const {
    return residual == nullptr ? x[i] : static_cast<double>(x[i]) + residual[i];
  }
};

struct Moments {
  double mean;
  double variance;
};

// One-pass mean and variance, shifted by the first element of the row. This element is within
// sqrt(width) standard deviations of the mean, so the relative cancellation error of the variance
// is at most width * 2^-52, regardless of the distance of the row from zero.
Moments MeanAndVariance(const Row& row) {
  const F64 d;
  const double origin = row.At(0);
  const VF64 shift = hn::Set(d, origin);
  VF64 sum0 = hn::Zero(d);
  VF64 sum1 = hn::Zero(d);
  VF64 squares0 = hn::Zero(d);
  VF64 squares1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * kLanes <= row.width; i += 2 * kLanes) {
    const VF64 v0 = hn::Sub(row.Load(i), shift);
    const VF64 v1 = hn::Sub(row.Load(i + kLanes), shift);
    sum0 = hn::Add(sum0, v0);
    sum1 = hn::Add(sum1, v1);
    squares0 = hn::MulAdd(v0, v0, squares0);
    squares1 = hn::MulAdd(v1, v1, squares1);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  double squares = hn::GetLane(hn::SumOfLanes(d, hn::Add(squares0, squares1)));
  for (; i < row.width; ++i) {
    const double v = row.At(i) - origin;
    sum += v;
    squares += v * v;
  }
  const double n = static_cast<double>(row.width);
  const double offset = sum / n;
  return {origin + offset, std::max(squares / n - offset * offset, 0.0)};
}

void ScaleAndShift(const LayerNormParams& p, const Row& row, double mean, double inverse,
                   float* y) {
  const F64 d;
  const F32Half half;
  const VF64 shift = hn::Set(d, mean);
  const VF64 scale = hn::Set(d, inverse);
  int64_t i = 0;
  for (; i + kLanes <= p.width; i += kLanes) {
    const VF64 gamma = hn::PromoteTo(d, hn::LoadU(half, p.gamma + i));
    const VF64 beta = hn::PromoteTo(d, hn::LoadU(half, p.beta + i));
    const VF64 v = hn::Mul(hn::Sub(row.Load(i), shift), scale);
    hn::StoreU(hn::DemoteTo(half, hn::MulAdd(v, gamma, beta)), half, y + i);
  }
  for (; i < p.width; ++i) {
    y[i] = static_cast<float>((row.At(i) - mean) * inverse * p.gamma[i] + p.beta[i]);
  }
}

void LayerNorm(const LayerNormParams& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    const int64_t at = r * p.width;
    const Row row = {.x = p.x + at,
                     .residual = p.residual == nullptr ? nullptr : p.residual + at,
                     .width = p.width};
    const auto [mean, variance] = MeanAndVariance(row);
    ScaleAndShift(p, row, mean, 1 / std::sqrt(variance + static_cast<double>(p.epsilon)), p.y + at);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
CHORALE_EXPORT_KERNEL(LayerNorm)
#endif  // HWY_ONCE
