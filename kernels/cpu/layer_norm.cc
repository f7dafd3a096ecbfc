#include "kernels/layer_norm.h"

#include <cmath>
#include <cstdint>

#include "kernels/cpu/enabled_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/layer_norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace chorale::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VF32 = hn::Vec<F32>;
inline constexpr int64_t kLanes = HWY_LANES(float);

// y = x + residual; returns the sum of y.
float AddResidual(const float* x, const float* residual, int64_t width, float* y) {
  const F32 d;
  VF32 sum0 = hn::Zero(d);
  VF32 sum1 = hn::Zero(d);
  int64_t i = 0;
  const auto load = [&](int64_t at) HWY_ATTR {
    const VF32 v = hn::LoadU(d, x + at);
    return residual == nullptr ? v : hn::Add(v, hn::LoadU(d, residual + at));
  };
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    const VF32 v0 = load(i);
    const VF32 v1 = load(i + kLanes);
    hn::StoreU(v0, d, y + i);
    hn::StoreU(v1, d, y + i + kLanes);
    sum0 = hn::Add(sum0, v0);
    sum1 = hn::Add(sum1, v1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < width; ++i) {
    const float v = residual == nullptr ? x[i] : x[i] + residual[i];
    y[i] = v;
    sum += v;
  }
  return sum;
}

float SumOfSquares(const float* y, int64_t width, float mean) {
  const F32 d;
  const VF32 shift = hn::Set(d, mean);
  VF32 sum0 = hn::Zero(d);
  VF32 sum1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    const VF32 v0 = hn::Sub(hn::LoadU(d, y + i), shift);
    const VF32 v1 = hn::Sub(hn::LoadU(d, y + i + kLanes), shift);
    sum0 = hn::MulAdd(v0, v0, sum0);
    sum1 = hn::MulAdd(v1, v1, sum1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < width; ++i) sum += (y[i] - mean) * (y[i] - mean);
  return sum;
}

void ScaleAndShift(const LayerNormParams& p, float mean, float inverse, float* y) {
  const F32 d;
  const VF32 shift = hn::Set(d, mean);
  const VF32 scale = hn::Set(d, inverse);
  int64_t i = 0;
  for (; i + kLanes <= p.width; i += kLanes) {
    const VF32 v = hn::Mul(hn::Sub(hn::LoadU(d, y + i), shift), scale);
    hn::StoreU(hn::MulAdd(v, hn::LoadU(d, p.gamma + i), hn::LoadU(d, p.beta + i)), d, y + i);
  }
  for (; i < p.width; ++i) y[i] = (y[i] - mean) * inverse * p.gamma[i] + p.beta[i];
}

// Two passes, mean first: the variance does not cancel for rows far from zero.
void LayerNorm(const LayerNormParams& p) {
  const float inverse_width = 1.0f / static_cast<float>(p.width);
  for (int64_t r = 0; r < p.rows; ++r) {
    const int64_t at = r * p.width;
    float* y = p.y + at;
    const float* residual = p.residual == nullptr ? nullptr : p.residual + at;
    const float mean = AddResidual(p.x + at, residual, p.width, y) * inverse_width;
    const float variance = SumOfSquares(y, p.width, mean) * inverse_width;
    ScaleAndShift(p, mean, 1.0f / std::sqrt(variance + p.epsilon), y);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace chorale::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace chorale::kernels {
namespace {
HWY_EXPORT(LayerNorm);
}  // namespace

void LayerNorm(const LayerNormParams& params) { HWY_DYNAMIC_DISPATCH(LayerNorm)(params); }

}  // namespace chorale::kernels
#endif  // HWY_ONCE
